// Expected times of steps from measured ones.
#include "swarm/workers/batch_times.h"

#include <gtest/gtest.h>

namespace weft::swarm {
namespace {

void AddThrice(BatchTimes& times, uint32_t rows, double elapsed_us) {
  for (int i = 0; i < 3; ++i) times.Add(rows, elapsed_us);
}

TEST(BatchTimes, SaysNothingBeforeThreeSamples) {
  BatchTimes times;
  EXPECT_FALSE(times.ExpectedUs(8).has_value());
  times.Add(8, 800);
  times.Add(8, 800);
  EXPECT_FALSE(times.ExpectedUs(8).has_value());
  times.Add(8, 800);
  EXPECT_DOUBLE_EQ(*times.ExpectedUs(8), 800);
  times.Clear();
  EXPECT_FALSE(times.ExpectedUs(8).has_value());
}

TEST(BatchTimes, TheOwnClassCountsAndItsMedian) {
  BatchTimes times;
  AddThrice(times, 1, 1000);
  AddThrice(times, 128, 6400);
  times.Add(128, 1e9);  // one hiccup
  EXPECT_DOUBLE_EQ(*times.ExpectedUs(128), 6400);
  EXPECT_DOUBLE_EQ(*times.ExpectedUs(200), 10'000);
  EXPECT_DOUBLE_EQ(*times.ExpectedUs(1), 1000);
}

TEST(BatchTimes, FewerRowsGiveAnUpperBoundForMoreAndNothingElse) {
  BatchTimes times;
  AddThrice(times, 8, 800);
  EXPECT_DOUBLE_EQ(*times.ExpectedUs(64), 6400);  // no row costs more in a larger step
  EXPECT_FALSE(times.ExpectedUs(4).has_value());
  EXPECT_GE(*times.ExpectedUs(UINT32_MAX), 4e11);
}

TEST(BatchTimes, BetweenWhatWasMeasuredTimesAreOnALine) {
  BatchTimes times;
  AddThrice(times, 9, 3800);
  AddThrice(times, 27, 6900);
  EXPECT_NEAR(*times.ExpectedUs(8), 3378, 1) << "its own class has no fewer";
  EXPECT_NEAR(*times.ExpectedUs(15), 4833, 1);
  EXPECT_NEAR(*times.ExpectedUs(16), 5006, 1) << "one more never looks quicker for its class";
  EXPECT_NEAR(*times.ExpectedUs(54), 13'800, 1);
  AddThrice(times, 8, 3800);
  EXPECT_NEAR(*times.ExpectedUs(27), 6900, 1);
  AddThrice(times, 1, 1000);
  EXPECT_NEAR(*times.ExpectedUs(4), 1000 + 3.0 / 7.5 * 2589, 2) << "a class that was not measured";
}

TEST(BatchTimes, RowsWithinATimeAreThoseOfTheLargestClassThatHasThem) {
  BatchTimes times;
  EXPECT_FALSE(times.RowsWithin(1000).has_value());
  AddThrice(times, 1, 1000);
  EXPECT_EQ(times.RowsWithin(22'500), 22u);  // more rows cost no more each
  EXPECT_EQ(times.RowsWithin(10), 1u);
  AddThrice(times, 100, 5000);
  EXPECT_EQ(times.RowsWithin(5000), 100u);
  EXPECT_EQ(times.RowsWithin(50'000), 1000u);
  EXPECT_EQ(times.RowsWithin(2000), 40u) << "tried";
  AddThrice(times, 20, 1600);
  EXPECT_EQ(times.RowsWithin(2000), 40u) << "still";
  AddThrice(times, 40, 3000);
  EXPECT_EQ(times.RowsWithin(2000), 25u);
  // What a larger class says is too many is never given.
  EXPECT_EQ(times.RowsWithin(3190), 42u);
  times.Clear();
  AddThrice(times, 128, 400'000);
  EXPECT_EQ(times.RowsWithin(50'000), 16u);
}

TEST(BatchTimes, AClassWhoseRowsCostMoreThanThoseOfAShorterOneIsTriedAgain) {
  BatchTimes times;
  AddThrice(times, 600, 120'000);  // while kernels were compiled: 200 us a row
  AddThrice(times, 250, 10'000);
  AddThrice(times, 300, 12'000);
  EXPECT_EQ(times.RowsWithin(50'000), 511u) << "what the class of 512 leaves";
  for (int i = 0; i < 253; ++i) times.Add(500, 20'000);
  EXPECT_EQ(times.RowsWithin(50'000), 511u);
  times.Add(500, 20'000);
  EXPECT_EQ(times.RowsWithin(50'000), 1250u) << "in doubt, and tried";
  AddThrice(times, 700, 28'000);
  EXPECT_EQ(times.RowsWithin(50'000), 1250u);
  EXPECT_DOUBLE_EQ(*times.ExpectedUs(700), 28'000);
}

TEST(BatchTimes, FewerRowsTakeNoLongerThanMore) {
  BatchTimes times;
  EXPECT_EQ(times.AtMostUs(5), std::nullopt);
  AddThrice(times, 1, 3600);
  AddThrice(times, 8, 4000);
  AddThrice(times, 16, 4500);
  EXPECT_DOUBLE_EQ(*times.AtMostUs(5), 4000);
  EXPECT_DOUBLE_EQ(*times.AtMostUs(8), 4500) << "of its own class ExpectedUs tells";
  EXPECT_EQ(times.AtMostUs(16), std::nullopt);
}

TEST(BatchTimes, AClassThatIsMeasuredIsNotInDoubt) {
  BatchTimes times;
  for (int i = 0; i < 1000; ++i) {
    times.Add(100, 1000);
    times.Add(600, 120'000);  // slow indeed
  }
  EXPECT_EQ(times.RowsWithin(50'000), 250u);
}

}  // namespace
}  // namespace weft::swarm
