// What the servers and workers of a run share: time, network, database, and each other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/cluster/cell_model.h"
#include "sim/cluster/gateway.h"
#include "sim/cluster/line_ends.h"
#include "sim/cluster/model_database.h"
#include "sim/cluster/network.h"
#include "sim/cluster/scenario.h"
#include "sim/scheduler.h"

namespace weft::sim {

// Where the database is, and how it feels.
struct DatabaseHealth {
  bool is_away = false;
  Duration latency = Milliseconds(2);  // there and back, half to twice of it
};

struct World {
  World(uint64_t seed, const ClusterScenario& a_scenario);

  const ClusterScenario& scenario;
  Scheduler scheduler;
  SeededRandom random;
  Network network;
  ModelDatabase database;
  DatabaseHealth health;
  std::vector<ServerEnd*> servers;  // by node
  std::vector<WorkerEnd*> workers;  // by node, from kFirstWorker on
  uint64_t next_start = 1;
  LineId next_line = 1;
  std::function<void(const std::string&)> log, violate;
  std::function<void()> worker_has_joined, worker_has_left;
  std::function<void(cluster::ServerId)> server_has_died;
  std::vector<std::unique_ptr<CellModel>> models;  // by cell, from cell 1 on
  Gateway::Counts counts;                          // of all gateways

  Node NodeOf(cluster::ServerId server) const { return static_cast<Node>(server.value() - 1); }
  cluster::ServerId IdOf(Node node) const { return cluster::ServerId(uint64_t{node} + 1); }
  const CellModel& ModelOf(cluster::CellId cell) const { return *models.at(cell.value() - 1); }
  ServerEnd& ServerAt(Node node) { return *servers.at(node); }
  WorkerEnd& WorkerAt(Node node) { return *workers.at(node - kFirstWorker); }

  // Runs a statement at the database, and what it gives at the process that asked. Either may never
  // happen: the database is away, a line is cut, the process dies.
  using Answer = std::function<void()>;
  void AskDatabase(Node from, std::shared_ptr<Process> process, std::function<Answer()> statement);

 private:
  void RunStatement(Node from, std::shared_ptr<Process> process, std::function<Answer()> statement,
                    Instant until);
  Duration OneWay();
};

}  // namespace weft::sim
