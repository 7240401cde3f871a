#include "swarm/workers/measurement.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace weft::swarm {
namespace {

constexpr uint64_t kMaxRunUs = 3'600'000'000;
// Between the threads of both ends, beside the line: what no honest device takes longer for, as a
// rule, and what it may take more where the line itself takes long.
constexpr double kMostHandoverUs = 10'000, kMostHandoverShare = 2;

Error Broken(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

Result<double> MeanOfQuickest(const wire::pb::Measured::Timing& timing, LayerSpan layers) {
  if (timing.layers().first() != layers.first || timing.layers().end() != layers.end)
    return Broken("Measured times layers " + std::to_string(timing.layers().first()) + " to " +
                  std::to_string(timing.layers().end()) + ", expected " +
                  std::to_string(layers.first) + " to " + std::to_string(layers.end) + ".");
  if (timing.run_us_size() != static_cast<int>(kMeasureRuns))
    return Broken("Measured holds " + std::to_string(timing.run_us_size()) +
                  " runs of a range, expected " + std::to_string(kMeasureRuns) + ".");
  std::vector<uint64_t> runs(timing.run_us().begin(), timing.run_us().end());
  std::sort(runs.begin(), runs.end());
  if (runs.back() > kMaxRunUs)
    return Broken("Measured holds a run of " + std::to_string(runs.back()) +
                  " us, expected at most an hour.");
  const double sum = std::accumulate(runs.begin(), runs.begin() + kMeasureKept, 0.0);
  // A clock too coarse for a tiny model says 0: half a microsecond keeps the formulas meaningful.
  return std::max(sum / kMeasureKept, 0.5);
}

}  // namespace

double BoundedComputeUs(double claimed_us, double elapsed_us, double line_us) {
  const double handover_us = std::max(kMostHandoverUs, kMostHandoverShare * line_us);
  return std::min(std::max(claimed_us, elapsed_us - line_us - handover_us), elapsed_us);
}

MeasureRanges RangesOf(uint32_t first, uint32_t layer_count) {
  CHECK(layer_count >= 2);
  return {first, first + std::max(layer_count / 3, 1u), first + layer_count};
}

StepSpeed SpeedFromTimes(const RangeTime& small, const RangeTime& large) {
  const double us = small.us + large.us, cost = small.cost + large.cost;
  const double delta_us = large.us - small.us, delta_cost = large.cost - small.cost;
  if (delta_us <= 0 || delta_cost <= 0) return {0, cost / us};
  const double overhead_us = std::max(0.0, small.us - small.cost * delta_us / delta_cost);
  return {overhead_us, cost / (us - 2 * overhead_us)};
}

Result<StepSpeed> SpeedFromMeasured(const wire::pb::Measured& measured, const MeasureRanges& ranges,
                                    const MeasuredWithin& within,
                                    const std::function<double(LayerSpan)>& cost) {
  if (measured.timings_size() != 2)
    return Broken("Measured holds " + std::to_string(measured.timings_size()) +
                  " ranges, expected 2.");
  ASSIGN_OR_RETURN(const double small_us, MeanOfQuickest(measured.timings(0), ranges.small()));
  ASSIGN_OR_RETURN(const double large_us, MeanOfQuickest(measured.timings(1), ranges.large()));
  double all_us = 0;
  for (const auto& timing : measured.timings())
    for (const uint64_t run_us : timing.run_us()) all_us += static_cast<double>(run_us);
  all_us = std::max(all_us, 1.0);
  // What loading took is not known.
  double bounded_us = all_us;
  if (within.only_ran)
    bounded_us = std::max(all_us, BoundedComputeUs(0, within.elapsed_us, within.latency_us));
  const double factor = bounded_us / all_us;
  return SpeedFromTimes({small_us * factor, cost(ranges.small())},
                        {large_us * factor, cost(ranges.large())});
}

}  // namespace weft::swarm
