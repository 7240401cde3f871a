#include "sim/cluster/run.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace weft::sim {
namespace {

struct Sums {
  std::vector<uint64_t> takes;
  std::vector<Duration> kills, drains, power_losses, restarts;

  void Add(const ClusterOutcome& outcome) {
    takes.push_back(outcome.takes);
    kills.insert(kills.end(), outcome.kills.begin(), outcome.kills.end());
    drains.insert(drains.end(), outcome.drains.begin(), outcome.drains.end());
    power_losses.insert(power_losses.end(), outcome.power_losses.begin(),
                        outcome.power_losses.end());
    restarts.insert(restarts.end(), outcome.restarts.begin(), outcome.restarts.end());
  }
};

void PrintPauses(const char* what, std::vector<Duration> pauses) {
  if (pauses.empty()) return;
  std::ranges::sort(pauses);
  const auto at = [&pauses](size_t percent) {
    return pauses[std::min(pauses.size() - 1, pauses.size() * percent / 100)].seconds();
  };
  std::printf("  %s: %zu, all workers at their leader after %.2f s p50, %.2f s p99, %.2f s most\n",
              what, pauses.size(), at(50), at(99), pauses.back().seconds());
}

void PrintSums(ClusterFaults faults, uint64_t seeds, int failed, Sums sums) {
  std::ranges::sort(sums.takes);
  std::printf(
      "%s: %llu seeds, %d with violations, cells taken %llu times a run (median), "
      "%llu at most\n",
      std::string(NameOf(faults)).c_str(), static_cast<unsigned long long>(seeds), failed,
      static_cast<unsigned long long>(sums.takes[sums.takes.size() / 2]),
      static_cast<unsigned long long>(sums.takes.back()));
  PrintPauses("kills", std::move(sums.kills));
  PrintPauses("drains", std::move(sums.drains));
  PrintPauses("power losses", std::move(sums.power_losses));
  PrintPauses("starts of all servers", std::move(sums.restarts));
}

void PrintSeed(uint64_t seed, const ClusterOutcome& outcome) {
  std::printf("seed %llu: %llu faults, %llu takes, %llu moves of workers: %s\n",
              static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(outcome.faults),
              static_cast<unsigned long long>(outcome.takes),
              static_cast<unsigned long long>(outcome.moves),
              outcome.violations.empty() ? "ok" : outcome.violations.front().c_str());
}

}  // namespace

ClusterOutcome SimulateCluster(uint64_t seed, const ClusterScenario& scenario) {
  return ClusterRun(seed, scenario).Run();
}

int RunClusterSimulation(uint64_t first_seed, uint64_t count, ClusterFaults faults, bool verbose) {
  int failed = 0;
  Sums sums;
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const ClusterOutcome outcome = SimulateCluster(seed, MakeClusterScenario(seed, faults));
    sums.Add(outcome);
    if (verbose || !outcome.violations.empty()) PrintSeed(seed, outcome);
    if (outcome.violations.empty() || ++failed > 1) continue;  // one log is enough to read
    for (const std::string& line : outcome.log) std::printf("  %s\n", line.c_str());
    std::printf("replay with: weft sim --cluster --faults %s --seed %llu --seeds 1\n",
                std::string(NameOf(faults)).c_str(), static_cast<unsigned long long>(seed));
  }
  if (count > 0) PrintSums(faults, count, failed, std::move(sums));
  return failed;
}

}  // namespace weft::sim
