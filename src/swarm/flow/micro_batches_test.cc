#include "swarm/flow/micro_batches.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::swarm {
namespace {

// Takes so long for a step, and for each of its rows; its line takes the rest.
StageCosts Stage(double step_us, double row_us, double line_us = 0) {
  const auto computed = [=](uint32_t rows) { return step_us + row_us * rows; };
  return {[=](uint32_t rows) { return computed(rows) + line_us; }, computed};
}

uint32_t Parts(uint32_t rows, const std::vector<StageCosts>& stages, uint32_t most = 8) {
  return MicroBatches(rows, stages, most);
}

TEST(MicroBatches, AreAsManyAsEqualStages) {
  EXPECT_EQ(Parts(16, {Stage(3500, 60), Stage(3500, 60)}), 2u);
  EXPECT_EQ(Parts(16, {Stage(3500, 60), Stage(3500, 60), Stage(3500, 60)}), 3u);
  EXPECT_EQ(Parts(16, {Stage(100, 1000), Stage(100, 1000)}), 2u);
}

TEST(MicroBatches, AreNoMoreThanRows) {
  EXPECT_EQ(Parts(1, {Stage(3500, 60), Stage(3500, 60)}), 1u);
  EXPECT_EQ(Parts(2, {Stage(10, 1), Stage(10, 1), Stage(10, 1)}), 2u);
}

// While a part is on the line its device has time for others: 20 ms of each round are the lines',
// so four parts of 1.2 ms cost nothing more.
TEST(MicroBatches, FillTheTimeOfLongLines) {
  EXPECT_EQ(Parts(16, {Stage(100, 1000, 10'000), Stage(100, 1000, 10'000)}, 4), 4u);
  EXPECT_EQ(Parts(16, {Stage(100, 1, 10'000), Stage(100, 1, 10'000)}, 4), 2u);
}

// A part of 16 rows passes each of two stages in 5.3 ms, and keeps it from another one for 2.9.
TEST(MicroBatches, AreMoreThanStagesThatTakeTheNextOneMeanwhile) {
  const StageCosts stage = {[](uint32_t rows) { return 4500 + 50.0 * rows; },
                            [](uint32_t rows) { return 2100 + 50.0 * rows; }};
  EXPECT_EQ(Parts(32, {stage, stage}, 4), 3u);
  EXPECT_EQ(Parts(32, {Stage(3200, 50, 1300), Stage(3200, 50, 1300)}, 4), 2u);
}

// Where one stage has nearly all of the work, parts beyond one keep it busy no better.
TEST(MicroBatches, AreFewWhereOneStageDoesAll) {
  EXPECT_EQ(Parts(16, {Stage(9000, 10), Stage(100, 0)}), 1u);
}

// What is known of single rows alone says that eight take eight times as long. All numbers promise
// the same then, and the next step will tell.
TEST(MicroBatches, AreNotManyWhereRowsTogetherAreNotKnown) {
  EXPECT_EQ(Parts(16, {Stage(0, 1000), Stage(0, 1000)}), 2u);
}

}  // namespace
}  // namespace weft::swarm
