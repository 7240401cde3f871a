// A worker of a cell: the real membership on a hash engine (model_worker.h), and the way from one
// server to the next. When its leader is lost it tries one server after another.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cluster/cell_model.h"
#include "sim/cluster/world.h"
#include "sim/model_worker.h"

namespace weft::sim {

class ClusterWorker : public WorkerEnd {
 public:
  // `servers`: all that its join link names. `model` outlives it.
  ClusterWorker(World& world, Node node, cluster::CellId cell, const CellModel& model,
                Device device, std::vector<cluster::ServerId> servers);

  void Start() { TryNext(); }

  // ---- what a server says ----
  void OnControl(const wire::pb::ServerMessage& message) override;
  void OnFrame(const Slice& frame) override;
  void OnRedirect(cluster::ServerId to) override;

  cluster::CellId cell() const { return cell_; }
  // The server whose Init it has taken; not set while it has none.
  cluster::ServerId leader() const { return has_joined_ ? server_ : cluster::ServerId{}; }
  // How often it has dropped its keys and values.
  uint64_t dropped() const { return begins_ > 0 ? begins_ - 1 : 0; }

 private:
  // ---- the way to a server ----
  void TryNext();
  void Try(cluster::ServerId server);
  void OnOutcome(uint64_t attempt, Network::Outcome outcome, std::shared_ptr<Channel> channel);
  // Ends what it has with the present server, and turns to the next.
  void Leave();
  void LeaveIf(uint64_t attempt) {
    if (attempt == attempt_) Leave();
  }
  void WatchSilence(uint64_t attempt);

  // ---- the worker ----
  void Begin();
  void Say(FromWorker message);
  void NoteJoined();
  void KnowSuccessors(const std::vector<wire::pb::Init::Successor>& successors);

  World& world_;
  const Node node_;
  const cluster::CellId cell_;
  const CellModel& model_;
  Device device_;
  std::shared_ptr<Process> process_;
  std::vector<cluster::ServerId> servers_;  // in the order in which they are tried
  size_t next_ = 0;                         // of them
  cluster::ServerId sent_to_;               // by a redirect that was not followed yet
  uint64_t attempt_ = 0;
  std::shared_ptr<Channel> channel_;
  cluster::ServerId server_;
  bool has_joined_ = false;
  Instant heard_at_;
  uint64_t incarnation_ = 0;  // of this connection's Init
  uint64_t ran_ = 0;          // of the last frame
  std::shared_ptr<ModelWorker> worker_;
  uint64_t begins_ = 0;  // how often it looked for what its disk has
};

}  // namespace weft::sim
