// A run of several servers with their database, their workers and their clients, in one thread on a
// virtual clock. Leases, leadership and splices (src/cluster), cores (src/swarm) and the workers'
// membership (src/worker) are the real ones. Database, network, engines and the servers' routes are
// models, and a seed decides what goes wrong. The same seed replays the same run.
//
// Invariants, checked while it runs and at its end, beside those of cluster_clients.h:
//   a worker gets no frame of a lower incarnation than one before it, and refuses none;
//   no incarnation of a cell is given twice, and no deposed leader writes a row;
//   with faults of the database alone, or of lines between servers, nobody takes a cell and no
//   worker loses its leader;
//   `calm` after all is well every cell has one leader, with all of its workers, and the row names
//   it; no worker drops its keys and values, but for a minute without a leader;
//   a cell is taken at most so many times; after a kill, a drain, a loss of power or a restart the
//   workers are at their leader within the scenario's bars.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/cluster_clients.h"
#include "sim/cluster/cluster_worker.h"
#include "sim/cluster/scenario.h"
#include "sim/cluster/server_host.h"
#include "sim/cluster/world.h"

namespace weft::sim {

struct ClusterOutcome {
  std::vector<std::string> violations;        // empty: all invariants held
  std::deque<std::string> log;                // the last lines
  uint64_t takes = 0, faults = 0, moves = 0;  // moves: of workers to a leader
  ClusterClients::Counts clients;
  Gateway::Counts gateways;
  // Until all workers of a cell were at a leader again.
  std::vector<Duration> kills, drains, power_losses, restarts;
  uint64_t digest = 0;  // of everything that happened
};

class ClusterRun {
 public:
  // `scenario` outlives it.
  ClusterRun(uint64_t seed, const ClusterScenario& scenario);
  ClusterOutcome Run();

 private:
  // Cells that have lost their leader on purpose, from then until their workers have one again.
  struct Watch {
    cluster::CellId cell;
    cluster::Holder lost;
    Instant begun;
    Duration limit;
    std::vector<Duration>* pauses;
    bool is_over = false;
  };

  // ---- what goes wrong (cluster_faults.cc) ----
  void ScheduleFault();
  void Fault();
  void FaultOfAll();
  void CutSomething(Instant until);
  void RefuseSomething();
  void Isolate(Instant until);
  void FaultOfDatabase();
  void FaultOfKill();
  void FaultOfLoss();
  void FaultOfRelay();
  ServerHost& AnyServer();
  ServerHost* AnyLeader();
  void KillAndRestart(ServerHost& server, bool with_power, Duration time);
  void DrainAndRestart(ServerHost& server, Duration time);
  void WaitForDrain(ServerHost& server, cluster::Holder drained, Instant until, Duration time);
  void KillAll();
  void Heal();
  Duration Between(double least_s, double most_s);

  // ---- checks ----
  void WatchCells(ServerHost& lost, Duration limit, std::vector<Duration>& pauses);
  void CheckWatches();
  bool AllFollow(cluster::CellId cell, const ServerHost& server) const;
  ServerHost* LeaderOf(cluster::CellId cell);
  void CheckEnd();
  void CheckAnswers();
  void Violate(const std::string& text);
  void Log(const std::string& text);

  const ClusterScenario& scenario_;
  ClusterOutcome outcome_;
  World world_;
  std::vector<std::unique_ptr<ServerHost>> servers_;
  std::vector<std::unique_ptr<ClusterWorker>> workers_;
  ClusterClients clients_;
  SeededRandom random_;
  Instant chaos_end_;
  std::deque<Watch> watches_;
  ServerHost* stays_away_ = nullptr;  // it has lost its power for good
  bool is_chaos_ = true;
};

}  // namespace weft::sim
