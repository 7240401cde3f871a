// Runs many seeds of several servers and reports: the body of `weft sim --cluster`.
#pragma once

#include <cstdint>

#include "sim/cluster/cluster_run.h"

namespace weft::sim {

ClusterOutcome SimulateCluster(uint64_t seed, const ClusterScenario& scenario);

// Simulates seeds first_seed ... first_seed + count - 1 with these faults. Prints one line for each
// when verbose, and the log of the first that fails. In the end it prints how often cells were
// taken and how long their workers waited. Returns how many failed.
int RunClusterSimulation(uint64_t first_seed, uint64_t count, ClusterFaults faults, bool verbose);

}  // namespace weft::sim
