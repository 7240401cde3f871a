// What steps tell of a device's line and of its compute, and how wrong predictions were.
#include "swarm/workers/worker_times.h"

#include <gtest/gtest.h>

#include "swarm/workers/lifetimes.h"

namespace weft::swarm {
namespace {

// A device 2 ms away, 10 bytes per us down and 2 up, that takes 1 ms for a step and 0.3 ms to hand
// it over.
StepTime Step(uint32_t rows, uint64_t down, uint64_t up) {
  StepTime step;
  step.rows = rows;
  step.bytes_down = down;
  step.bytes_up = up;
  step.compute_us = 1000;
  step.queue_us = 100;
  step.elapsed_us =
      1100 + 2000 + 300 + static_cast<double>(down) / 10 + static_cast<double>(up) / 2;
  step.alone = true;
  return step;
}

WorkerTimes Pinged() {
  WorkerTimes times;
  times.latency_us.Add(2000);
  return times;
}

TEST(WorkerTimes, SmallStepsTellOfHandingOver) {
  WorkerTimes times = Pinged();
  times.AddLine(Step(1, 2048, 2048), {10, 2});
  EXPECT_NEAR(*times.handover_us.Median(), 300, 1e-6);
  times.AddLine(Step(2, 2048, 2048), {10, 2});  // rows of a chunk wait for each other
  EXPECT_EQ(times.handover_us.count(), 1u);
  EXPECT_EQ(times.up_rate.count() + times.down_rate.count(), 0u);
}

TEST(WorkerTimes, TheFirstStageTellsOfTheWayUpTheLastOfTheWayDown) {
  WorkerTimes times = Pinged();
  times.AddLine(Step(1, 2048, 2048), {10, 2});
  times.AddLine(Step(128, 512, 262'144), {10, 10});
  EXPECT_NEAR(*times.up_rate.Median(), 2, 0.01);
  EXPECT_EQ(times.down_rate.count(), 0u);
  times.AddLine(Step(128, 262'144, 512), {50, 2});
  EXPECT_NEAR(*times.down_rate.Median(), 10, 0.01);
}

TEST(WorkerTimes, AStageInTheMiddleKeepsTheRatioOfTheRates) {
  WorkerTimes times = Pinged();
  times.AddLine(Step(1, 2048, 2048), {10, 2});
  times.AddLine(Step(128, 262'144, 262'144), {20, 4});  // twice as fast as it is, both ways
  EXPECT_NEAR(*times.down_rate.Median(), 10, 0.01);
  EXPECT_NEAR(*times.up_rate.Median(), 2, 0.01);
}

TEST(WorkerTimes, StepsBesideOthersAndLinesOfUnknownLengthTellNothing) {
  WorkerTimes unpinged;
  unpinged.AddLine(Step(1, 2048, 2048), {10, 2});
  WorkerTimes times = Pinged();
  StepTime beside = Step(128, 512, 262'144);
  beside.alone = false;
  times.AddLine(beside, {10, 10});
  for (const WorkerTimes* each : {&unpinged, &times})
    EXPECT_EQ(each->handover_us.count() + each->up_rate.count() + each->down_rate.count(), 0u);
}

TEST(WorkerTimes, AChunkIsComparedWithATokenForEachOfItsRows) {
  WorkerTimes times;
  times.AddBatch(Step(128, 0, 0), 100);  // 128 rows in 1 ms, which ten tokens take
  EXPECT_NEAR(*times.batch_gain.Median(), 12.8, 1e-9);
  times.AddBatch(Step(8, 0, 0), 100);
  EXPECT_EQ(times.batch_gain.count(), 1u);
  WorkerTimes slow;
  slow.AddBatch(Step(16, 0, 0), 10);  // slower together than one by one: as if not
  EXPECT_EQ(*slow.batch_gain.Median(), 1);
}

TEST(WorkerTimes, AStepBehindAnotherKeepsTheDeviceForLess) {
  WorkerTimes times;
  EXPECT_EQ(times.BusyUs(16), std::nullopt);
  for (int i = 0; i < 3; ++i) times.computed.Add(16, 4000);
  EXPECT_EQ(times.BusyUs(16), 4000);
  EXPECT_EQ(times.BusyUs(24), 6000) << "a row costs what it does in its class";
  EXPECT_EQ(times.BusyUs(12), 4000) << "fewer rows take no longer";
  for (int i = 0; i < 3; ++i) times.behind.Add(16, 2880);
  EXPECT_EQ(times.BusyUs(16), 2880);
  EXPECT_EQ(times.BusyUs(11), 2880);
  times.ClearBinding();
  EXPECT_EQ(times.BusyUs(16), std::nullopt);
}

TEST(WorkerTimes, OtherLayersKeepWhatBelongsToTheDevice) {
  WorkerTimes times = Pinged();
  times.AddLine(Step(1, 2048, 2048), {10, 2});
  times.compute_us.Add(1);
  times.stage_us.Add(1);
  times.batches.Add(1, 1);
  times.ClearBinding();
  EXPECT_EQ(times.compute_us.count() + times.stage_us.count(), 0u);
  EXPECT_EQ(times.handover_us.count(), 1u);
}

TEST(MeanError, IsTheMeanOfShares) {
  MeanError error;
  EXPECT_FALSE(error.value());
  error.Add(110, 100);
  error.Add(70, 100);
  EXPECT_NEAR(*error.value(), 0.2, 1e-12);
  error.Add(5, 0);  // nothing was measured
  EXPECT_EQ(error.count(), 2u);
}

TEST(MeanError, ForgetsWhatIsLongOver) {
  MeanError error;
  for (int i = 0; i < 300; ++i) error.Add(300, 100);
  for (int i = 0; i < 2000; ++i) error.Add(100, 100);
  EXPECT_LT(*error.value(), 0.01);
}

TEST(Lifetimes, ADeviceThatNothingIsKnownOfStaysHalfAnHour) {
  const Lifetimes lifetimes;
  EXPECT_NEAR(1 / lifetimes.LossesPerS("new", Instant{}), 1800, 1e-9);
}

TEST(Lifetimes, LossesCountDeparturesInOrderDoNot) {
  Lifetimes lifetimes;
  for (int i = 0; i < 3; ++i) {
    const Instant joined = Instant{} + Seconds(i * 400);
    lifetimes.NoteJoined("phone", joined);
    lifetimes.NoteLost("phone", joined + Seconds(200));
    lifetimes.NoteJoined("laptop", joined);
    lifetimes.NoteLeft("laptop", joined + Seconds(200));
  }
  const Instant now = Instant{} + Seconds(1200);
  EXPECT_NEAR(lifetimes.LossesPerS("phone", now), 4.0 / 2400, 1e-12);
  EXPECT_NEAR(lifetimes.LossesPerS("laptop", now), 1.0 / 2400, 1e-12);
}

TEST(Lifetimes, WhoeverStaysIsTrustedMore) {
  Lifetimes lifetimes;
  lifetimes.NoteJoined("desktop", Instant{});
  EXPECT_NEAR(1 / lifetimes.LossesPerS("desktop", Instant{} + Seconds(86'400)), 88'200, 1e-6);
  lifetimes.NoteJoined("desktop", Instant{} + Seconds(10));  // a second tab
  lifetimes.NoteLost("desktop", Instant{} + Seconds(20));
  EXPECT_NEAR(1 / lifetimes.LossesPerS("desktop", Instant{} + Seconds(1800)), 1800, 1e-6);
}

TEST(Lifetimes, ForgetsTheBriefestOfThoseThatAreAway) {
  Lifetimes lifetimes;
  for (size_t i = 0; i <= Lifetimes::kMost; ++i) {
    const std::string device = std::to_string(i);
    lifetimes.NoteJoined(device, Instant{});
    if (i < 10) lifetimes.NoteLost(device, Instant{} + Seconds(100 - static_cast<int64_t>(i)));
  }
  EXPECT_EQ(lifetimes.device_count(), Lifetimes::kMost);
  const Instant now = Instant{} + Seconds(100);
  EXPECT_NEAR(1 / lifetimes.LossesPerS("9", now), 1800, 1e-6);  // forgotten: a new one
  EXPECT_LT(1 / lifetimes.LossesPerS("8", now), 1000);
}

// 30 ms, of which 4 were computed and 1 is the line: five waits of 5. Hubs say of these, as of a
// step's turn, that they waited so long.
TEST(WorkerTimes, WaitsOfAHubAreNoneOfItsLine) {
  WorkerTimes times;
  StepTime step;
  step.rows = 1;
  step.elapsed_us = 30'000;
  step.compute_us = 4'000;
  step.queue_us = 25'000;
  step.alone = true;
  times.AddWaits(step, 1'000, 5);
  EXPECT_DOUBLE_EQ(*times.waits_us.Median(), 5'000);
  step.alone = false;
  times.AddWaits(step, 1'000, 5);
  step.alone = true;
  step.rows = 2;
  times.AddWaits(step, 1'000, 5);
  step.rows = 1;
  times.AddWaits(step, 1'000, 0);
  EXPECT_EQ(times.waits_us.count(), 1u);
  EXPECT_EQ(times.handover_us.count(), 0u);
}

}  // namespace
}  // namespace weft::swarm
