#include "sim/run.h"

#include <cstdio>

#include "sim/simulation.h"

namespace weft::sim {

int RunSimulation(uint64_t first_seed, uint64_t count, bool verbose) {
  int failed = 0;
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const Outcome outcome = Simulate(seed, MakeScenario(seed));
    if (verbose || !outcome.violations.empty())
      std::printf("seed %llu: %llu requests, %llu tokens, %llu losses, %llu plans, %.0f s: %s\n",
                  static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(outcome.requests),
                  static_cast<unsigned long long>(outcome.tokens),
                  static_cast<unsigned long long>(outcome.losses),
                  static_cast<unsigned long long>(outcome.plans), outcome.virtual_time.seconds(),
                  outcome.violations.empty() ? "ok" : outcome.violations.front().c_str());
    if (outcome.violations.empty()) continue;
    ++failed;
    for (const std::string& violation : outcome.violations)
      std::printf("  violation: %s\n", violation.c_str());
    if (failed > 1) continue;  // one log is enough to read
    for (const std::string& line : outcome.log) std::printf("  %s\n", line.c_str());
    std::printf("replay with: weft sim --seed %llu\n", static_cast<unsigned long long>(seed));
  }
  return failed;
}

}  // namespace weft::sim
