#include "sim/run.h"

#include <cstdio>
#include <string>

#include "sim/simulation.h"

namespace weft::sim {
namespace {

// Seeds with further runs: a share that keeps a thousand of them within a minute.
constexpr uint64_t kHostileShare = 2, kLeftShare = 8;
// Whoever asks beside conversations that were left waits for a chunk at each of two stages, and for
// what the line and handing over take longer by chance.
constexpr int64_t kChunkMs = 50, kChanceMs = 50;

void Print(uint64_t seed, const char* about, const Outcome& outcome) {
  std::printf("seed %llu%s: %llu requests, %llu tokens, %llu losses, %llu plans, %.0f s: %s\n",
              static_cast<unsigned long long>(seed), about,
              static_cast<unsigned long long>(outcome.requests),
              static_cast<unsigned long long>(outcome.tokens),
              static_cast<unsigned long long>(outcome.losses),
              static_cast<unsigned long long>(outcome.plans), outcome.virtual_time.seconds(),
              outcome.violations.empty() ? "ok" : outcome.violations.front().c_str());
}

}  // namespace

Outcome SimulateLeft(uint64_t seed) {
  Outcome alone = Simulate(seed, MakeLeftScenario(seed, 0));
  if (!alone.violations.empty()) return alone;
  Outcome beside = Simulate(seed, MakeLeftScenario(seed, 3));
  const Duration most = alone.left_wait + Milliseconds(2 * kChunkMs + kChanceMs);
  if (beside.violations.empty() && beside.left_wait > most)
    beside.violations.push_back("a prompt waited for " + std::to_string(beside.left_wait.us) +
                                " us beside conversations that were left, without them it is " +
                                std::to_string(alone.left_wait.us));
  return beside;
}

int RunSimulation(uint64_t first_seed, uint64_t count, bool verbose) {
  int failed = 0;
  const auto judge = [&](uint64_t seed, const char* about, const Outcome& outcome) {
    if (verbose || !outcome.violations.empty()) Print(seed, about, outcome);
    if (outcome.violations.empty()) return;
    ++failed;
    for (const std::string& violation : outcome.violations)
      std::printf("  violation: %s\n", violation.c_str());
    if (failed > 1) return;  // one log is enough to read
    for (const std::string& line : outcome.log) std::printf("  %s\n", line.c_str());
    std::printf("replay with: weft sim --seed %llu\n", static_cast<unsigned long long>(seed));
  };
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    judge(seed, "", Simulate(seed, MakeScenario(seed)));
    if (seed % kHostileShare == 0)
      judge(seed, " (hostile)", Simulate(seed, MakeHostileScenario(seed)));
    if (seed % kLeftShare == 0) judge(seed, " (left)", SimulateLeft(seed));
  }
  return failed;
}

}  // namespace weft::sim
