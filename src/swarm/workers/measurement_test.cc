// What counts of the times that devices tell.
#include "swarm/workers/measurement.h"

#include <gtest/gtest.h>

namespace weft::swarm {
namespace {

// Seven runs of each range of layers 1 to 4, of a layer and of both others.
wire::pb::Measured MeasuredOf(uint64_t small_us, uint64_t large_us) {
  const MeasureRanges ranges = RangesOf(1, 3);
  wire::pb::Measured measured;
  for (const auto& [layers, run_us] :
       {std::pair(ranges.small(), small_us), std::pair(ranges.large(), large_us)}) {
    auto& timing = *measured.add_timings();
    timing.mutable_layers()->set_first(layers.first);
    timing.mutable_layers()->set_end(layers.end);
    for (uint32_t i = 0; i < kMeasureRuns; ++i) timing.add_run_us(run_us);
  }
  return measured;
}

double SpeedOf(const wire::pb::Measured& measured, const MeasuredWithin& within) {
  const auto cost = [](LayerSpan layers) { return 1000.0 * (layers.end - layers.first); };
  return SpeedFromMeasured(measured, RangesOf(1, 3), within, cost).value().ops_per_us;
}

TEST(Measurement, AStepTookWhatTheServersClockLeaves) {
  EXPECT_EQ(BoundedComputeUs(40'000, 50'000, 1'000), 40'000);
  EXPECT_EQ(BoundedComputeUs(2, 50'000, 1'000), 39'000);
  EXPECT_EQ(BoundedComputeUs(2, 50'000, 10'000), 20'000) << "a long line hands over slowly";
  EXPECT_EQ(BoundedComputeUs(2, 5'000, 1'000), 2) << "nothing can be told of short steps";
  EXPECT_EQ(BoundedComputeUs(60'000, 50'000, 1'000), 50'000) << "no step takes longer than that";
}

TEST(Measurement, SpeedIsWhatTheServersClockLeaves) {
  const double honest = SpeedOf(MeasuredOf(1'000, 2'000), {25'000, 1'000, true});
  EXPECT_NEAR(honest, 1, 1e-9);
  const double liars = SpeedOf(MeasuredOf(1, 2), {31'000, 0, true});
  EXPECT_NEAR(liars, 1, 1e-9);
  EXPECT_NEAR(SpeedOf(MeasuredOf(1, 2), {31'000, 0, false}), 1000, 1e-6) << "it had to load";
}

}  // namespace
}  // namespace weft::swarm
