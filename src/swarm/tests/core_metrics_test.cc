// What the core measures of devices and of its own predictions, and what its picture says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"
#include "swarm/workers/device.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::pb::ServerMessage;

TestWorker StepByStep(uint32_t compute_us) {
  TestWorker worker;
  worker.answer_steps = false;
  worker.compute_us = compute_us;
  return worker;
}

TEST(Metrics, CountBytesOfDataFramesExactly) {
  TestSwarm swarm;
  swarm.BringUp(1);
  swarm.Submit({1, 2, 3}, 2);
  // Two steps: 3 tokens, then 1; two results with one argmax each. Heads are 40 + 16 bytes.
  const Snapshot picture = swarm.picture();
  EXPECT_EQ(picture.boundary_bytes_sent, 2 * 56u + 3 * 4 + 4);
  EXPECT_EQ(picture.boundary_bytes_received, 2 * (56u + 12));
  EXPECT_EQ(picture.generated_tokens, 2u);
  EXPECT_EQ(picture.completed_requests, 1u);
  EXPECT_EQ(picture.workers[0].tokens_computed, 4u);
  EXPECT_EQ(picture.workers[0].steps.rows, 4u);
  EXPECT_EQ(picture.workers[0].steps.compute_us, 1000 * picture.workers[0].steps.count);
}

TEST(Metrics, StageTimesAreMediansOfOneRowSteps) {
  TestSwarm swarm;
  swarm.BringUp(1, StepByStep(40'000));
  swarm.Submit({1}, 9);
  for (int i = 0; i < 9; ++i) {
    swarm.Advance(Milliseconds(i == 4 ? 500 : 50));  // one outlier
    swarm.AnswerStep(1);
  }
  const Snapshot picture = swarm.picture();
  EXPECT_DOUBLE_EQ(picture.stages[0].measured_us, 50'000 + kServerStepUs);
  EXPECT_DOUBLE_EQ(picture.workers[0].us_per_token, 40'000);
  EXPECT_DOUBLE_EQ(picture.measured_us_per_token, 50'000 + kServerStepUs);
  // 6 MB of layers were assumed to take 1,200 us, and the overhead 100: each 40/1.3 times as long.
  EXPECT_NEAR(picture.workers[0].speed_bytes_per_us, 5000 * 1.3 / 40, 0.01);
  EXPECT_NEAR(picture.workers[0].overhead_us, 100 * 40 / 1.3, 0.01);
}

TEST(Metrics, ThePredictionIsThatOfTodaysMeasurements) {
  TestSwarm swarm;
  swarm.BringUp(1, StepByStep(40'000));
  const double guess_us = swarm.picture().predicted_us_per_token;
  EXPECT_LT(guess_us, 5'000);  // 6 MB at 5 GB/s, and a line
  EXPECT_FALSE(swarm.picture().running_error);
  swarm.Submit({1}, 40);
  for (int i = 0; i < 40; ++i) {
    swarm.Advance(Milliseconds(50));
    swarm.AnswerStep(1);
  }
  const Snapshot picture = swarm.picture();
  EXPECT_NEAR(picture.predicted_us_per_token, picture.measured_us_per_token, 1'000);
  // The guesses from before it was measured, off by a factor of ten, are no predictions.
  ASSERT_TRUE(picture.initial_error && picture.running_error);
  EXPECT_LT(*picture.initial_error, 0.05);
  EXPECT_LT(*picture.running_error, 0.05);
}

// A worker that has answered every ping at once until the probe of its line, which a test answers
// 100 ms later.
struct ProbedSwarm : TestSwarm {
  static constexpr Duration kStep = Milliseconds(10);
  ProbedSwarm() {
    TestSwarm scout;
    Begin(scout);
    int steps = 0;
    for (; !IsProbed(scout); ++steps) scout.Advance(kStep);
    Begin(*this);
    for (int i = 1; i < steps; ++i) Advance(kStep);
    worker(1).answer_pings = false;
    Advance(kStep);
    Advance(Milliseconds(100) - kStep);
  }
  static void Begin(TestSwarm& swarm) {
    TestWorker worker;
    worker.bytes_per_s = 1e7;
    swarm.BringUp(1, worker);
  }
  static bool IsProbed(const TestSwarm& swarm) {
    return swarm.Last(1, ServerMessage::kPing).ping().answer_bytes() > 0;
  }
  void Answer(size_t bytes) {
    wire::pb::WorkerMessage message;
    message.mutable_pong()->set_nonce(Last(1, ServerMessage::kPing).ping().nonce());
    message.mutable_pong()->set_padding(std::string(bytes, 'x'));
    Control(1, message);
  }
  double up() const { return picture().workers[0].upload_bytes_per_s; }
};

TEST(Metrics, TheWayUpIsMeasuredByOneLargerPong) {
  ProbedSwarm swarm;
  ASSERT_EQ(swarm.Last(1, ServerMessage::kPing).ping().answer_bytes(), 32'768u);
  EXPECT_DOUBLE_EQ(swarm.up(), 1e7);  // as it claims
  swarm.Answer(32'768);
  EXPECT_NEAR(swarm.up(), 364'000, 40'000);  // 32 KiB in 80 to 100 ms
  swarm.worker(1).answer_pings = true;
  swarm.Advance(Seconds(30));
  EXPECT_FALSE(ProbedSwarm::IsProbed(swarm));  // once is enough
}

TEST(Metrics, AWorkerThatAnswersTheProbeWithoutBytesIsNoWorse) {
  ProbedSwarm swarm;
  swarm.Answer(0);
  EXPECT_DOUBLE_EQ(swarm.up(), 1e7);
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
}

TEST(Metrics, MoreThanTheProbeAskedForIsRefused) {
  ProbedSwarm swarm;
  swarm.Answer(32'769);
  EXPECT_THAT(swarm.CloseReasons(1),
              ElementsAre(HasSubstr("Pong carries 32769 bytes, expected 32768")));
}

TEST(Metrics, WhatWasMeasuredIsMeasuredAgainWhileNobodyWaits) {
  TestSwarm swarm;
  swarm.BringUp(1);
  swarm.Advance(Seconds(20));
  EXPECT_DOUBLE_EQ(swarm.picture().workers[0].speed_bytes_per_us, 10'000);
  swarm.worker(1).run_us = 400;  // it got hot
  swarm.Advance(Seconds(500));
  EXPECT_DOUBLE_EQ(swarm.picture().workers[0].speed_bytes_per_us, 10'000);
  swarm.Advance(Seconds(2400));
  EXPECT_DOUBLE_EQ(swarm.picture().workers[0].speed_bytes_per_us, 2'500);
}

}  // namespace
}  // namespace weft::swarm
