// A simulated server: the real leases on a clock of its own, with sockets and statements of the
// simulator. A start of it is a Process; all that belongs to a start goes with it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/leases.h"
#include "sim/cluster/world.h"

namespace weft::sim {

class ServerHost : public ServerEnd {
 public:
  ServerHost(World& world, cluster::ServerId id);

  // ---- faults ----
  void Start();
  // Ends it as kill -9 does. Without power its machine ends no connection either.
  void Kill(bool with_power);
  void Stop(Duration time);
  void Drain();

  // ---- what workers and peers say ----
  void OnWorkerHello(const Channel* channel, const WorkerHello& hello) override;
  void OnWorkerAnswer(const Channel* channel, uint64_t position) override;
  void OnPeerHello(cluster::ServerId peer, const cluster::Hello& hello) override {
    Feed(cluster::HelloCame{peer, hello});
  }

  cluster::ServerId id() const { return holder_.server; }
  cluster::Holder holder() const { return holder_; }
  bool is_alive() const { return process_ && process_->is_alive(); }
  bool is_draining() const { return is_alive() && is_draining_; }
  bool is_drained() const { return is_alive() && leases_->is_drained(); }
  // The incarnation with which it leads the cell; nullopt: it does not.
  std::optional<cluster::Incarnation> Leads(cluster::CellId cell) const;
  std::string Name() const { return "server " + ToString(holder_.server); }

 private:
  struct Line {
    std::shared_ptr<Channel> channel;
    Node worker = 0;
    std::optional<WorkerHello> hello;  // not yet: the line has just been opened
    bool is_joined = false;            // the cell's leader has it
  };
  struct Cell {
    cluster::Incarnation incarnation;  // while it leads
    std::unique_ptr<LedCell> led;      // null while its placement is being read
    bool leads = false;
    uint64_t term = 0;  // counts times of leading
    cluster::ServerId placed;
  };

  // ---- leases ----
  Instant LocalNow() const;
  // Handles the event now, or after those that are being handled.
  void Feed(cluster::Event event);
  void HandleFed();
  void ArmTimer();
  // Does `what` after a time of the server's own clock, in this start.
  void After(Duration delay, std::function<void()> what);
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

  // ---- links to other servers (server_links.cc) ----
  void Accept(std::shared_ptr<Channel> channel, Node from);
  void OnLink(cluster::ServerId peer, std::shared_ptr<Channel> channel);
  void OnLinkClosed(cluster::ServerId peer, const Channel* channel);

  // ---- the cell behind the lease (server_cells.cc) ----
  void ReadPlacement(cluster::CellId id, uint64_t term);
  void BeginLeading(cluster::CellId id, uint64_t position);
  LeaderHooks HooksFor(cluster::CellId id);
  void Tick(cluster::CellId id, uint64_t term, Instant due);
  void WritePlacement(cluster::CellId id, cluster::Incarnation incarnation, uint64_t position);
  void FinishAndGive(const cluster::HandOver& action, uint64_t term);

  // ---- workers (server_cells.cc) ----
  Line* LineOf(const Channel* channel, LineId* id);
  void Place(LineId id);
  void Park(LineId id);
  void Send(LineId id, cluster::ServerId to);
  void CloseLine(LineId id);
  std::vector<LineId> LinesOf(cluster::CellId cell, bool is_joined) const;

  World& world_;
  cluster::Holder holder_;
  const Node node_;
  const double rate_;      // of its clock
  const Duration offset_;  // of its clock
  std::shared_ptr<Process> process_;
  std::unique_ptr<cluster::Leases> leases_;
  std::deque<cluster::Event> fed_;
  bool is_handling_ = false;
  std::optional<Instant> armed_;
  bool is_draining_ = false;
  std::map<cluster::ServerId, std::shared_ptr<Channel>> links_;
  std::map<cluster::CellId, Cell> cells_;
  std::map<LineId, Line> lines_;
};

}  // namespace weft::sim
