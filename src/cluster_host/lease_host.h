// LeaseHost gives a server's leases their events, and carries out what they want: statements for
// the database, links and hellos to other servers, and the cores of the cells that it leads. All of
// it is on the loop, which never waits for the database.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/leases.h"
#include "cluster_host/led_cell.h"
#include "cluster_host/peer_links.h"
#include "net/loop.h"
#include "shared_store/shared_leases.h"

namespace weft::cluster_host {

// Pauses of the host; those of leases are cluster::LeaseOptions.
struct LeaseHostTimes {
  Duration register_interval = Seconds(1);
  // At least, between two placements that are written. A leader that dies sooner after a change
  // takes what devices hold with it: the next one does not know of it.
  Duration placement_interval = Milliseconds(100);
  Duration read_again = Milliseconds(500);  // of a placement that could not be read
};

class LeaseHost {
 public:
  // `self` is what others are told of this server. All but `self` outlives this.
  LeaseHost(net::EventLoop& loop, shared_store::LeaseStore& store, PeerLinks& links,
            shared_store::SharedServer self, const cluster::LeaseOptions& options,
            LeaseHostTimes times = {});
  LeaseHost(const LeaseHost&) = delete;
  LeaseHost& operator=(const LeaseHost&) = delete;

  // From now on others hear of this server, and it of them.
  void Start();
  // From now on the cell of this model may be led here. `led` outlives this. REQUIRES: Start was
  // called, and the cell was not added yet.
  void Add(cluster::CellId cell, std::string model, LedCell& led);

  // ---- what a cell tells that was added ----
  void OnWorkers(cluster::CellId cell, uint32_t workers, bool up);
  // A worker has been told this incarnation by somebody.
  void OnWorkerSaw(cluster::CellId cell, cluster::Incarnation incarnation);
  void NotePlacement(cluster::CellId cell, std::vector<uint8_t> body);

  // ---- what others ask ----
  // The incarnation with which this server leads the cell; nullopt: it does not.
  std::optional<cluster::Incarnation> incarnation(cluster::CellId cell) const;
  bool leads(cluster::CellId cell) const { return incarnation(cell).has_value(); }
  bool leads_any() const;
  // The server that leads the cell as far as this one hears, which may be itself.
  struct Leader {
    cluster::ServerId server;
    std::string name, url;
    cluster::Incarnation incarnation;
    bool up = false;  // a full plan serves
  };
  std::optional<Leader> FindLeader(cluster::CellId cell) const;
  // Of a server of the cluster, for people.
  std::string NameOf(cluster::ServerId server) const;
  // Whether the server may lead a model that this one may lead.
  bool SharesModels(const shared_store::SharedServer& server) const;
  // As they were read last; all empty at first.
  const shared_store::SharedTables& tables() const { return tables_; }
  bool is_database_there() const { return !database_problem_; }
  const shared_store::SharedServer& self() const { return self_; }
  // Others are told of it with the next registration.
  void NoteNextKey(std::vector<uint8_t> check) { self_.next_check = std::move(check); }
  const PeerLinks& links() const { return links_; }
  // Called when a leader, or what is known of it, may be another one.
  void OnChanged(std::function<void()> callback) { on_changed_ = std::move(callback); }

 private:
  // One that may be led here.
  struct Cell {
    Cell(net::EventLoop& loop, cluster::CellId cell, std::string name, LedCell& behind)
        : id(cell), model(std::move(name)), led(behind), placement_timer(loop), read_timer(loop) {}

    const cluster::CellId id;
    const std::string model;
    LedCell& led;
    net::EventLoop::Timer placement_timer, read_timer;
    std::string told_leader;                          // that the log has
    std::optional<cluster::Incarnation> incarnation;  // while it is led here
    uint64_t term = 0;                                // counts times of leading
    bool has_core = false;                            // its placement was read
    bool is_up = false;                               // a full plan serves here
    std::vector<PeerAddress> told_successors;
    std::optional<std::vector<uint8_t>> placement;  // that is to be written
    bool is_writing = false;
    Instant written_at{INT64_MIN / 2};
  };

  // ---- events and timers ----
  void Feed(cluster::Event event);
  void ArmTimer();
  void Settle();
  // `then`, unless this was destroyed meanwhile.
  template <typename Then>
  auto WhileAlive(Then then) {
    return [alive = std::weak_ptr(alive_), then = std::move(then)](auto&&... told) {
      if (!alive.expired()) then(std::forward<decltype(told)>(told)...);
    };
  }

  // ---- actions ----
  void Carry(const cluster::ReadTables& action);
  void Carry(const cluster::Take& action);
  void Carry(const cluster::Renew& action);
  void Carry(const cluster::Lead& action);
  void Carry(const cluster::Raise& action);
  void Carry(const cluster::StepDown& action);
  void Carry(const cluster::HandOver& action);
  void Carry(const cluster::PlaceWorkers& action);
  void Carry(const cluster::SayHello& action);
  void Carry(const cluster::Connect& action);

  void Register();
  void OnTables(cluster::QueryId query, shared_store::SharedTables tables);
  void OnHello(cluster::ServerId peer, cluster::StartId start, const wire::pb::LinkHello& hello);
  void Settle(Cell& cell);
  void ReadPlacement(Cell& cell);
  void WritePlacement(Cell& cell, std::function<void()> then);
  void Give(const cluster::HandOver& action);
  void NoteAnswer(const Status& status);
  PeerAddress AddressOf(cluster::ServerId server) const;
  std::string UrlOf(cluster::ServerId server) const { return AddressOf(server).url; }
  std::vector<PeerAddress> Successors(const Cell& cell) const;
  Cell& At(cluster::CellId cell) { return *cells_.at(cell); }

  net::EventLoop& loop_;
  shared_store::LeaseStore& store_;
  PeerLinks& links_;
  shared_store::SharedServer self_;
  const LeaseHostTimes times_;
  cluster::Leases leases_;
  std::map<cluster::CellId, std::unique_ptr<Cell>> cells_;

  std::deque<cluster::Event> fed_;
  bool is_handling_ = false;
  net::EventLoop::Timer lease_timer_, register_timer_;

  shared_store::SharedTables tables_;
  std::map<cluster::ServerId, PeerAddress> addresses_;  // also of those that were deleted
  std::map<cluster::ServerId, std::vector<cluster::CellState>> heard_;  // of open links
  std::optional<std::string> database_problem_;
  bool was_drained_ = false;
  std::function<void()> on_changed_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::cluster_host
