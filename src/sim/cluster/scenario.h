// What goes wrong in a run of several servers, and what has to hold all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "cluster/events.h"
#include "cluster/options.h"
#include "sim/cluster/gateway.h"
#include "sim/cluster/model_database.h"

namespace weft::sim {

enum class ClusterFaults : uint8_t {
  kAll,       // lines are cut, servers stop, die and drain, the database is slow or away
  kReject,    // the same, and firewalls refuse connects between servers that live
  kDatabase,  // the database is slow or away, and nothing else happens
  kKill,      // servers are killed, lose their power or are drained, one after another
  kLoss,      // servers are killed, and the database loses its last commits
  kRelay,     // lines between servers are cut, while all of them reach the database and workers
};

// Finds the kind by its name: all, reject, db, kill, loss or relay.
std::optional<ClusterFaults> ClusterFaultsByName(std::string_view name);
std::string_view NameOf(ClusterFaults faults);
// Leaders are well whatever happens, so that no cell moves.
bool NobodyTakes(ClusterFaults faults);

// Changes what passes between one server's leases and the world. The functions may change what they
// get; false drops it.
struct Tampering {
  std::function<bool(cluster::ServerId, cluster::Event&)> on_event;
  std::function<bool(cluster::ServerId, cluster::Action&)> on_action;
};

struct ClusterScenario {
  ClusterFaults faults = ClusterFaults::kAll;
  uint32_t servers = 3, cells = 1, workers_of_cell = 4;
  uint32_t clients_of_cell = 3;  // each asks for one answer after another
  Duration clocks_apart =
      Seconds(int64_t{2} * 24 * 3600);  // how far clocks of servers are from each other at most
  Duration chaos = Seconds(120);        // faults happen for so long
  Duration calm = Seconds(30);  // then all is well, and everything must be in order after it
  cluster::LeaseOptions lease;
  ModelDatabase::Rules database;
  bool workers_refuse_lower = true;  // incarnations than they have seen
  bool servers_park = true;          // workers that come; else they refuse them
  Gateway::Rules gateway;
  Tampering tampering;

  // The bars of a run without tampering.
  uint64_t most_takes = 0;
  Duration longest_kill = Seconds(2);   // until all workers are at the new leader
  Duration longest_drain = Seconds(2);  // the same
  Duration longest_power_loss = Seconds(9);
  Duration longest_restart = Seconds(2);  // of all servers, from their start
};

// The seed chooses the number of servers and cells.
ClusterScenario MakeClusterScenario(uint64_t seed, ClusterFaults faults);

}  // namespace weft::sim
