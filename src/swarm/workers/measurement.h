// Speed of a worker from two timed layer ranges (dynamic-graph-partitioning 4.3.2). Pure functions.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "swarm/binding.h"
#include "wire/control.pb.h"

namespace weft::swarm {

// Of each range. The quickest ones count: others warmed up, or waited for something else. Example:
// a GPU takes 0.46 ms and 0.03 ms a layer, and now and then 0.3 ms more until it is heard. With
// means over five and eleven layers one card was taken for 0.00 ms and 0.09 a layer.
inline constexpr uint32_t kMeasureRuns = 7;
inline constexpr uint32_t kMeasureKept = 3;
// Layers of both ranges where the model and the memory allow: of those that would have to be
// downloaded, and of those that are on the device. A processor keeps four layers of a small model
// in its caches, in answers it has to read them from memory.
inline constexpr uint32_t kMeasureLayers = 4, kMeasureLayersAtHand = 16;

struct StepSpeed {
  double overhead_us = 0;  // SO_w, not negative
  double ops_per_us = 0;   // CS_w, in units of the layers' cost
};

// Two ranges of [first, end), of different lengths. They share no layer, and runs of them take
// turns, so that neither finds its weights where its last run has left them: of 16 layers of 9 MB
// 141 MB pass before the same layer comes again. Two layers are too few for that: one is run, and
// both. Layers that are kept together are run as they are, as both ranges: all that they take
// counts as speed.
struct MeasureRanges {
  uint32_t first = 0, middle = 0, end = 0;
  LayerSpan small() const { return {first, middle}; }
  LayerSpan large() const { return {end - first > 2 && middle < end ? middle : first, end}; }
  bool operator==(const MeasureRanges&) const = default;
};

// `layer_count` consecutive layers from `first`. REQUIRES: layer_count >= 2.
MeasureRanges RangesOf(uint32_t first, uint32_t layer_count);

// Mean of the quickest runs of a range, and the sum of C over it.
struct RangeTime {
  double us = 0, cost = 0;
};

// t = SO + C / CS of both. Noise can make the larger range the quicker one: then everything counts
// as speed and nothing as overhead.
StepSpeed SpeedFromTimes(const RangeTime& small, const RangeTime& large);

// What the server itself knows of a measurement.
struct MeasuredWithin {
  double elapsed_us = 0;  // from asking to the answer
  double latency_us = 0;  // of the line, both ways
  bool only_ran = false;  // nothing had to be loaded first
};

// What counts of `claimed_us` that somebody says to have computed within `elapsed_us`: no less than
// what the line and the handing over between threads leave of that, and no more than all of it. One
// that said more would have prompts cut into the smallest chunks.
double BoundedComputeUs(double claimed_us, double elapsed_us, double line_us);

// Times too short to be true are replaced by those that can be (BoundedComputeUs); who says longer
// ones is planned with as the slow one that it says it is. Errors: ranges that were
// not asked for, another number of runs, a time beyond an hour.
Result<StepSpeed> SpeedFromMeasured(const wire::pb::Measured& measured, const MeasureRanges& ranges,
                                    const MeasuredWithin& within,
                                    const std::function<double(LayerSpan)>& cost);

}  // namespace weft::swarm
