// LeaseHost gives a server's leases their events, and carries out what they want: statements for
// the database, links and hellos to other servers, and the core of the cell that it leads. All of
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

  // From now on the cell may be led here. `led` outlives this. One cell a server.
  void Start(cluster::CellId cell, std::string model, LedCell& led);

  // ---- what the cell tells ----
  void OnWorkers(uint32_t workers, bool up);
  // A worker has been told this incarnation by somebody.
  void OnWorkerSaw(cluster::Incarnation incarnation);
  void NotePlacement(std::vector<uint8_t> body);

  // ---- what others ask ----
  bool leads() const { return led_incarnation_.has_value(); }
  std::optional<cluster::Incarnation> incarnation() const { return led_incarnation_; }
  // The server that leads the cell as far as this one hears, which may be itself.
  struct Leader {
    cluster::ServerId server;
    std::string name, url;
    cluster::Incarnation incarnation;
    bool up = false;  // a full plan serves
  };
  std::optional<Leader> FindLeader() const;
  // Of a server of the cluster, for people.
  std::string NameOf(cluster::ServerId server) const;
  // Whether the server may lead the model that this one may lead.
  bool ServesModel(const shared_store::SharedServer& server) const {
    return server.model.empty() || server.model == self_.model;
  }
  // As they were read last; all empty at first.
  const shared_store::SharedTables& tables() const { return tables_; }
  bool is_database_there() const { return !database_problem_; }
  const shared_store::SharedServer& self() const { return self_; }
  // Others are told of it with the next registration.
  void NoteNextKey(std::vector<uint8_t> check) { self_.next_check = std::move(check); }
  const PeerLinks& links() const { return links_; }
  // Called when the leader, or what is known of it, may be another one.
  void OnChanged(std::function<void()> callback) { on_changed_ = std::move(callback); }

 private:
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
  void ReadPlacement();
  void WritePlacement(std::function<void()> then);
  void Give(const cluster::HandOver& action);
  void NoteAnswer(const Status& status);
  PeerAddress AddressOf(cluster::ServerId server) const;
  std::string UrlOf(cluster::ServerId server) const { return AddressOf(server).url; }
  std::vector<PeerAddress> Successors() const;

  net::EventLoop& loop_;
  shared_store::LeaseStore& store_;
  PeerLinks& links_;
  shared_store::SharedServer self_;
  const LeaseHostTimes times_;
  cluster::Leases leases_;
  cluster::CellId cell_;
  std::string model_;
  LedCell* led_ = nullptr;

  std::deque<cluster::Event> fed_;
  bool is_handling_ = false;
  net::EventLoop::Timer lease_timer_, register_timer_, placement_timer_, read_timer_;

  shared_store::SharedTables tables_;
  std::map<cluster::ServerId, PeerAddress> addresses_;     // also of those that were deleted
  std::map<cluster::ServerId, cluster::CellState> heard_;  // of open links, of the cell
  std::optional<std::string> database_problem_;
  bool was_drained_ = false;
  std::string told_leader_;  // that the log has

  std::optional<cluster::Incarnation> led_incarnation_;
  uint64_t term_ = 0;      // counts times of leading
  bool has_core_ = false;  // its placement was read
  bool is_up_ = false;     // a full plan serves here
  std::vector<PeerAddress> told_successors_;
  std::optional<std::vector<uint8_t>> placement_;  // that is to be written
  bool is_writing_ = false;
  Instant written_at_{INT64_MIN / 2};
  std::function<void()> on_changed_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::cluster_host
