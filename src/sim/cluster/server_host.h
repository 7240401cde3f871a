// A simulated server: the real leases on a clock of its own, and the real core of each cell that it
// leads, with sockets and statements of the simulator. A start of it is a Process; all that belongs
// to a start goes with it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/leases.h"
#include "sim/cluster/cell_requests.h"
#include "sim/cluster/core_cell.h"
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
  void OnWorkerMessage(const Channel* channel, const FromWorker& message) override;
  void OnPeerHello(cluster::ServerId peer, const cluster::Hello& hello) override;
  void OnPeerAsks(cluster::ServerId peer, cluster::CellId cell, const ToLeader& asked) override;
  void OnPeerTells(cluster::ServerId peer, cluster::CellId cell, const ToGateway& told) override;

  // ---- its clients ----
  // Nothing happens while it is dead. What a stopped server is asked waits.
  void Do(std::function<void()> what) { process_->Do(std::move(what)); }
  Gateway& GatewayOf(cluster::CellId cell) { return cells_.at(cell).requests->gateway(); }

  cluster::ServerId id() const { return holder_.server; }
  cluster::Holder holder() const { return holder_; }
  bool is_alive() const { return process_ && process_->is_alive(); }
  bool is_draining() const { return is_alive() && is_draining_; }
  bool is_drained() const { return is_alive() && leases_->is_drained(); }
  // The incarnation with which it leads the cell; nullopt: it does not.
  std::optional<cluster::Incarnation> Leads(cluster::CellId cell) const;
  // The core of the cell here; nullptr: it does not lead, or has not begun to.
  const CoreCell* CoreOf(cluster::CellId cell) const;
  std::string Name() const { return "server " + ToString(holder_.server); }

 private:
  struct Line {
    std::shared_ptr<Channel> channel;
    Node worker = 0;
    std::optional<WorkerHello> hello;  // not yet: the line has just been opened
    bool is_joined = false;            // the cell's core has it
  };
  struct Link {
    std::shared_ptr<Channel> channel;
    std::map<cluster::CellId, cluster::CellState> heard;  // of the last hello
  };
  struct Cell {
    cluster::Incarnation incarnation;  // while it leads
    std::unique_ptr<CellRequests> requests;
    std::unique_ptr<CoreCell> core;  // null while its placement is being read
    bool leads = false;
    uint64_t term = 0;  // counts times of leading
    cluster::ServerId placed;
    std::vector<cluster::ServerId> told_successors;
    ModelDatabase::Placement unwritten;  // null: all is written
    bool is_writing = false;
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
  std::optional<CellRequests::Leader> FindLeader(cluster::CellId cell) const;
  CellRequests::Hooks RequestHooks(cluster::CellId cell);
  // What follows whatever has happened: gateways know whom to ask, and workers whom to turn to.
  void Settle();

  // ---- the cell behind the lease (server_cells.cc) ----
  void ReadPlacement(cluster::CellId id, uint64_t term);
  void BeginLeading(cluster::CellId id, const ModelDatabase::Placement& placement);
  swarm::CoreOptions OptionsOf(cluster::CellId id, const ModelDatabase::Placement& placement);
  CoreHooks HooksFor(cluster::CellId id);
  void TellLeadership(cluster::CellId id);
  void NotePlacement(cluster::CellId id, swarm::Placement placement);
  void WritePlacement(cluster::CellId id, uint64_t term);

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
  std::map<cluster::ServerId, Link> links_;
  std::map<cluster::CellId, Cell> cells_;
  std::map<LineId, Line> lines_;
};

}  // namespace weft::sim
