#include "sim/cluster/scenario.h"

#include <array>
#include <utility>

#include "base/random.h"

namespace weft::sim {
namespace {

constexpr std::array<std::pair<std::string_view, ClusterFaults>, 6> kNames = {
    {{"all", ClusterFaults::kAll},
     {"reject", ClusterFaults::kReject},
     {"db", ClusterFaults::kDatabase},
     {"kill", ClusterFaults::kKill},
     {"loss", ClusterFaults::kLoss},
     {"relay", ClusterFaults::kRelay}}};

// By kind of faults: half more than the most that 3,000 seeds of each have shown. With faults of
// the database alone, or of lines between servers, each cell is taken once.
constexpr std::array<uint64_t, 6> kMostTakes = {30, 45, 0, 27, 60, 0};

}  // namespace

std::optional<ClusterFaults> ClusterFaultsByName(std::string_view name) {
  for (const auto& [each, faults] : kNames)
    if (each == name) return faults;
  return std::nullopt;
}

bool NobodyTakes(ClusterFaults faults) {
  return faults == ClusterFaults::kDatabase || faults == ClusterFaults::kRelay;
}

std::string_view NameOf(ClusterFaults faults) {
  return kNames.at(static_cast<size_t>(faults)).first;
}

ClusterScenario MakeClusterScenario(uint64_t seed, ClusterFaults faults) {
  SeededRandom random(seed ^ 0xc1057e4ull);
  ClusterScenario scenario;
  scenario.faults = faults;
  // Half of the runs have three servers, others two to five. Where leaders are killed, there are
  // three at least.
  const uint64_t few = faults == ClusterFaults::kKill ? 3 : 2;
  scenario.servers = random.Below(2) == 0 ? 3 : static_cast<uint32_t>(few + random.Below(6 - few));
  // A server without peers hears nobody, and goes on without its database.
  if (faults == ClusterFaults::kDatabase && random.Below(5) == 0) scenario.servers = 1;
  scenario.cells = 1 + static_cast<uint32_t>(random.Below(2));
  scenario.workers_of_cell = 1 + static_cast<uint32_t>(random.Below(6));
  scenario.clients_of_cell = 1 + static_cast<uint32_t>(random.Below(5));
  scenario.most_takes =
      NobodyTakes(faults) ? scenario.cells : kMostTakes.at(static_cast<size_t>(faults));
  return scenario;
}

}  // namespace weft::sim
