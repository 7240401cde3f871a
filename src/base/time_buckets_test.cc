#include "base/time_buckets.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weft {
namespace {

TEST(TimeBuckets, CountsEachTimeOnce) {
  TimeBuckets times;
  times.Add(Milliseconds(1));  // an end belongs to its bucket
  times.Add(Microseconds(1001));
  times.Add(Seconds(1000));
  times.Add(Microseconds(-5));  // clocks of a test may stand
  EXPECT_EQ(times.counts()[0], 1u);
  EXPECT_EQ(times.counts()[1], 1u);
  EXPECT_EQ(times.counts()[2], 1u);
  EXPECT_EQ(times.counts().back(), 1u);
  EXPECT_EQ(std::accumulate(times.counts().begin(), times.counts().end(), uint64_t{0}),
            times.count());
  EXPECT_NEAR(times.sum_s(), 1000.002001, 1e-9);
}

}  // namespace
}  // namespace weft
