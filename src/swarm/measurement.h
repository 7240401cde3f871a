// Speed of a worker from two timed layer ranges (dynamic-graph-partitioning 4.3.2). Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "wire/control.pb.h"

namespace weft::swarm {

inline constexpr uint32_t kMeasureRuns = 7;    // of each range
inline constexpr uint32_t kMeasureKept = 3;    // the last ones count: the first warm up
inline constexpr uint32_t kMeasureLayers = 4;  // k - i where the model and the memory allow

struct Speed {
  double overhead_us = 0;  // SO_w, not negative
  double ops_per_us = 0;   // CS_w, in units of the layers' cost
};

// [first, middle) and [first, end) with middle - first = ceil((end - first) / 2).
struct MeasureRanges {
  uint32_t first = 0, middle = 0, end = 0;
  bool operator==(const MeasureRanges&) const = default;
};

// `layer_count` consecutive layers from `first`. REQUIRES: layer_count >= 2.
MeasureRanges RangesOf(uint32_t first, uint32_t layer_count);

// t_i,j and t_i,k in us are means of the last runs; `cost` is the sum of C over [first, end).
// Noise can make the longer range the quicker one: then everything counts as speed and nothing as
// overhead.
Speed SpeedFromTimes(const MeasureRanges& ranges, double half_us, double whole_us, double cost);

// Errors: ranges that were not asked for, another number of runs, a time of 0 or beyond an hour.
Result<Speed> SpeedFromMeasured(const wire::pb::Measured& measured, const MeasureRanges& ranges,
                                double cost);

}  // namespace weft::swarm
