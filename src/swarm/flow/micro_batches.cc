#include "swarm/flow/micro_batches.h"

#include <algorithm>

#include "base/check.h"

namespace weft::swarm {
namespace {

// Another number of parts has to promise so much of a round's time: measured times waver, and each
// change divides all parts anew.
constexpr double kWorthChanging = 0.97;

double RoundUs(uint32_t rows, uint32_t parts, std::span<const StageCosts> stages) {
  const uint32_t of_a_part = (rows + parts - 1) / parts;
  double passed_us = 0, longest_us = 0;
  for (const StageCosts& stage : stages) {
    passed_us += stage.passed_us(of_a_part);
    longest_us = std::max(longest_us, stage.busy_us(of_a_part));
  }
  return std::max(passed_us, parts * longest_us);
}

}  // namespace

uint32_t MicroBatches(uint32_t rows, std::span<const StageCosts> stages, uint32_t most_parts) {
  CHECK(rows > 0 && !stages.empty() && most_parts > 0);
  const uint32_t most = std::min(rows, most_parts);
  uint32_t best = std::min(most, static_cast<uint32_t>(stages.size()));
  double best_us = RoundUs(rows, best, stages);
  for (uint32_t parts = 1; parts <= most; ++parts) {
    const double us = RoundUs(rows, parts, stages);
    if (us >= best_us * kWorthChanging) continue;
    best = parts;
    best_us = us;
  }
  return best;
}

}  // namespace weft::swarm
