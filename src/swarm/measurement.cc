#include "swarm/measurement.h"

#include <algorithm>

#include "base/check.h"

namespace weft::swarm {
namespace {

constexpr uint64_t kMaxRunUs = 3'600'000'000;

Error Broken(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

Result<double> MeanOfLast(const wire::pb::Measured::Timing& timing, uint32_t first, uint32_t end) {
  if (timing.layers().first() != first || timing.layers().end() != end)
    return Broken("Measured times layers " + std::to_string(timing.layers().first()) + " to " +
                  std::to_string(timing.layers().end()) + ", expected " + std::to_string(first) +
                  " to " + std::to_string(end) + ".");
  if (timing.run_us_size() != static_cast<int>(kMeasureRuns))
    return Broken("Measured holds " + std::to_string(timing.run_us_size()) +
                  " runs of a range, expected " + std::to_string(kMeasureRuns) + ".");
  double sum = 0;
  for (int i = 0; i < timing.run_us_size(); ++i) {
    const uint64_t run_us = timing.run_us(i);
    if (run_us > kMaxRunUs)
      return Broken("Measured holds a run of " + std::to_string(run_us) +
                    " us, expected at most an hour.");
    if (i >= static_cast<int>(kMeasureRuns - kMeasureKept)) sum += static_cast<double>(run_us);
  }
  // A clock too coarse for a tiny model says 0: half a microsecond keeps the formulas meaningful.
  return std::max(sum / kMeasureKept, 0.5);
}

}  // namespace

MeasureRanges RangesOf(uint32_t first, uint32_t layer_count) {
  CHECK(layer_count >= 2);
  return {first, first + (layer_count + 1) / 2, first + layer_count};
}

Speed SpeedFromTimes(const MeasureRanges& ranges, double half_us, double whole_us, double cost) {
  const double delta_us = whole_us - half_us;
  if (delta_us <= 0) return {0, cost / whole_us};
  const double per_layer_us = delta_us / (ranges.end - ranges.middle);
  const double overhead_us = std::max(0.0, half_us - (ranges.middle - ranges.first) * per_layer_us);
  return {overhead_us, cost / (whole_us - overhead_us)};
}

Result<Speed> SpeedFromMeasured(const wire::pb::Measured& measured, const MeasureRanges& ranges,
                                double cost) {
  if (measured.timings_size() != 2)
    return Broken("Measured holds " + std::to_string(measured.timings_size()) +
                  " ranges, expected 2.");
  ASSIGN_OR_RETURN(const double half_us,
                   MeanOfLast(measured.timings(0), ranges.first, ranges.middle));
  ASSIGN_OR_RETURN(const double whole_us,
                   MeanOfLast(measured.timings(1), ranges.first, ranges.end));
  return SpeedFromTimes(ranges, half_us, whole_us, cost);
}

}  // namespace weft::swarm
