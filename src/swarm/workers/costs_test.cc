// What steps in answers tell of a device whose measurement was too good.
#include "swarm/workers/costs.h"

#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

constexpr StepSpeed kMeasured = {.overhead_us = 700, .ops_per_us = 1e6 / 300};

// A GPU was measured to take 700 us a step and 300 us a layer of 1 MB. Its answers with so many
// layers take twice as long as that.
Worker Served(const Costs& costs, uint32_t layers) {
  Worker worker;
  worker.times.AddMeasured(kMeasured);
  const double step_us = kMeasured.overhead_us + costs.Cost({0, layers}) / kMeasured.ops_per_us;
  for (int step = 0; step < 20; ++step)
    worker.times.AddSpeed(costs.SpeedSample(worker, {0, layers}, 2 * step_us));
  return worker;
}

TEST(Costs, StepsScaleTheOverheadAndTheLayersAlike) {
  const Costs costs(TestOptions());
  const Worker worker = Served(costs, 2);
  EXPECT_NEAR(costs.OverheadUs(worker), 1400, 1e-6);
  EXPECT_NEAR(costs.Speed(worker), 1e6 / 600, 1e-6);
}

// Two equal devices look equal, however few layers one of them has.
TEST(Costs, FewLayersDoNotMakeADeviceSlow) {
  const Costs costs(TestOptions());
  const Worker few = Served(costs, 1), many = Served(costs, 5);
  EXPECT_NEAR(costs.ComputeUs(few, {0, 3}), costs.ComputeUs(many, {0, 3}), 1e-6);
}

TEST(Costs, ASampleStaysFiniteForAClockTooCoarse) {
  const Costs costs(TestOptions());
  Worker worker;
  worker.times.AddMeasured({0, 1e6});
  const StepSpeed sample = costs.SpeedSample(worker, {0, 1}, 0);
  EXPECT_EQ(sample.overhead_us, 0);
  EXPECT_DOUBLE_EQ(sample.ops_per_us, 2e6);
}

}  // namespace
}  // namespace weft::swarm
