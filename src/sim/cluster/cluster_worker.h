// A model of a worker of a cell. It holds keys and values as a number of rows, and follows its
// leader. When that is lost, it tries one server after another. It refuses a leader with a lower
// incarnation than it has seen.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cluster/world.h"

namespace weft::sim {

class ClusterWorker : public WorkerEnd {
 public:
  // `servers`: all that its join link names.
  ClusterWorker(World& world, Node node, cluster::CellId cell,
                std::vector<cluster::ServerId> servers);

  void Start() { TryNext(); }

  // ---- what a server says ----
  void OnInit(const InitMessage& init) override;
  void OnStep(const StepMessage& step) override;
  void OnRedirect(cluster::ServerId to) override;
  void OnRefused() override;

  cluster::CellId cell() const { return cell_; }
  // The server whose Init it has taken; not set while it has none.
  cluster::ServerId leader() const { return has_joined_ ? server_ : cluster::ServerId{}; }
  uint64_t dropped() const { return dropped_; }

 private:
  void TryNext();
  void Try(cluster::ServerId server);
  void OnOutcome(uint64_t attempt, Network::Outcome outcome, std::shared_ptr<Channel> channel);
  void OnClosed(uint64_t attempt);
  // Ends what it has with the present server, and turns to the next.
  void Leave();
  void WatchSilence(uint64_t attempt);
  void DropRows();

  World& world_;
  const Node node_;
  const cluster::CellId cell_;
  std::shared_ptr<Process> process_;
  std::vector<cluster::ServerId> servers_;  // in the order in which they are tried
  size_t next_ = 0;                         // of them
  cluster::ServerId sent_to_;               // by a redirect that was not followed yet
  uint64_t attempt_ = 0;
  std::shared_ptr<Channel> channel_;
  cluster::ServerId server_;
  bool has_joined_ = false;
  Instant heard_at_, left_at_;
  cluster::Incarnation seen_;
  cluster::Incarnation ran_;  // of the last step
  uint64_t rows_ = 0, dropped_ = 0;
};

}  // namespace weft::sim
