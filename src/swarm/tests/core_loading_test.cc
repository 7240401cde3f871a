// Layers that do not get onto a device: full disks, damaged packages, repairs that do not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kFull = "The cache of this device fails: No space left on device.";

TestWorker NeverLoads() {
  TestWorker worker;
  worker.answer_prepare = false;
  return worker;
}

// The worker says that what it was asked for last failed.
void FailLoad(TestSwarm& swarm, WorkerId id, ErrorCode code, const std::string& message) {
  wire::pb::WorkerMessage failed = swarm.Failed(swarm.bindings(id).back().id, code);
  failed.mutable_failed()->set_message(message);
  swarm.Control(id, failed);
}

size_t CheckCount(const TestSwarm& swarm) {
  size_t count = 0;
  for (const Action& action : swarm.log())
    if (std::holds_alternative<CheckLayers>(action)) ++count;
  return count;
}

TEST(LoadFaults, AFullDiskIsToldWithTheFirstFailureAndOthersAreAskedAtOnce) {
  TestSwarm swarm;
  const WorkerId full = swarm.Join(NeverLoads());
  swarm.Advance(Milliseconds(200));
  FailLoad(swarm, full, ErrorCode::kIo, kFull);
  EXPECT_EQ(swarm.picture().workers[0].problem, kFull);
  EXPECT_THAT(swarm.picture().message, HasSubstr(kFull));
  swarm.ClearLog();
  swarm.Advance(Seconds(1));
  EXPECT_THAT(swarm.Sent(full), Not(HasSubstr("prepare_stage"))) << "nothing cures it";
  swarm.Join();
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(LoadFaults, ItIsAskedAgainAndIsNotBlamed) {
  TestSwarm swarm;
  const WorkerId full = swarm.Join(NeverLoads());
  swarm.Advance(Milliseconds(200));
  const Duration pauses[] = {Seconds(5), Seconds(10), Seconds(20), Seconds(40)};
  for (const Duration pause : pauses) {
    FailLoad(swarm, full, ErrorCode::kIo, kFull);
    swarm.ClearLog();
    swarm.Advance(pause - Milliseconds(100));
    EXPECT_THAT(swarm.Sent(full), Not(HasSubstr("prepare_stage")));
    swarm.Advance(Milliseconds(400));
    EXPECT_THAT(swarm.Sent(full), HasSubstr("prepare_stage"));
  }
  swarm.Control(full, swarm.Prepared(full));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

// Its disk is full, and what it runs goes on.
TEST(LoadFaults, WhoServesGoesOn) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId front = swarm.picture().stages[0].worker, back = swarm.picture().stages[1].worker;
  TestWorker held = Half();
  held.answer_prepare = false;
  const WorkerId spare = swarm.Join(held);
  swarm.Advance(Seconds(5));
  ASSERT_THAT(swarm.bindings(spare), Not(IsEmpty())) << "it is to stand by";
  FailLoad(swarm, spare, ErrorCode::kIo, kFull);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), ElementsAre(6, 7, 8));
  EXPECT_EQ(swarm.picture().stages[0].worker, front);
  EXPECT_EQ(swarm.picture().stages[1].worker, back);
}

TEST(LoadFaults, TheServerLooksAtItsOwnFilesBeforeItBlames) {
  TestSwarm swarm;
  const WorkerId told = swarm.Join(NeverLoads());
  swarm.Advance(Milliseconds(200));
  Duration pause = Seconds(5);
  for (int i = 0; i < 5; ++i) {
    swarm.ClearLog();
    FailLoad(swarm, told, ErrorCode::kInvalidData, "Chunk 3 of blob 12 does not match.");
    EXPECT_EQ(CheckCount(swarm), 1u);
    swarm.Feed(LayersChecked{0, 6, "The package on the server is damaged."});
    EXPECT_THAT(swarm.picture().message, HasSubstr("The package on the server is damaged."));
    swarm.Advance(pause + Milliseconds(200));
    pause = pause * 2;
    ASSERT_THAT(swarm.Sent(told), HasSubstr("prepare_stage")) << "put aside in round " << i;
  }
  swarm.Control(told, swarm.Prepared(told));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.picture().message, HasSubstr("Ready"));
}

TEST(LoadFaults, WhereTheyAreInOrderTheDeviceHasFailed) {
  TestSwarm swarm;
  const WorkerId told = swarm.Join(NeverLoads());
  swarm.Advance(Milliseconds(200));
  for (int i = 0; i < 3; ++i) {
    FailLoad(swarm, told, ErrorCode::kInvalidData, "Chunk 3 of blob 12 does not match.");
    swarm.Feed(LayersChecked{0, 6, std::nullopt});
    if (i < 2) swarm.Advance(Seconds(21));
  }
  swarm.ClearLog();
  swarm.Advance(Seconds(14));
  EXPECT_THAT(swarm.Sent(told), Not(HasSubstr("prepare_stage"))) << "three failures";
}

// Several devices say so of the same layers: one look answers all.
TEST(LoadFaults, OneLookAtATimeIsEnough) {
  TestSwarm swarm;
  TestWorker half = Half();
  half.answer_prepare = false;
  swarm.Join(half);
  swarm.Join(half);
  swarm.Advance(Milliseconds(200));
  swarm.ClearLog();
  FailLoad(swarm, 1, ErrorCode::kInvalidData, "damaged");
  wire::pb::WorkerMessage other = swarm.Failed(swarm.bindings(2).back().id, ErrorCode::kNotFound);
  swarm.Control(2, other);
  EXPECT_EQ(CheckCount(swarm), 1u);
}

class SlowRepairTest : public testing::Test {
 protected:
  SlowRepairTest() {
    swarm_.BringUp(3, Third());
    swarm_.worker(3).answer_steps = false;
    request_ = swarm_.Submit(Counting(100, 20), 6);
    swarm_.Lose(swarm_.picture().stages[1].worker);
    TestWorker slow = Third();
    slow.answer_prepare = slow.answer_measure = false;
    slow_ = swarm_.Join(slow);
    swarm_.Advance(Milliseconds(500));
    EXPECT_THAT(swarm_.bindings(slow_), SizeIs(1)) << "it is to fill the hole";
    swarm_.AnswerSteps(3);
  }
  TestSwarm swarm_;
  WorkerId slow_;
  RequestId request_;
};

TEST_F(SlowRepairTest, AfterTenSecondsAnotherDeviceIsTaken) {
  TestWorker spare = Third();
  swarm_.Advance(Seconds(4));
  const WorkerId other = swarm_.Join(spare);
  swarm_.Advance(Seconds(4));
  EXPECT_EQ(swarm_.picture().state, SwarmState::kRepairing);
  swarm_.Advance(Seconds(4));
  EXPECT_EQ(swarm_.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm_.picture().stages[1].worker, other);
  EXPECT_EQ(swarm_.Tokens(request_), Counting(120, 6));
  EXPECT_THAT(swarm_.CloseReasons(slow_), IsEmpty()) << "being slow is no fault";
}

TEST_F(SlowRepairTest, WhereNobodyElseIsThereItGoesOn) {
  swarm_.Advance(Seconds(15));
  EXPECT_THAT(swarm_.CloseReasons(slow_), IsEmpty());
  swarm_.AnswerPrepares(slow_);
  swarm_.Advance(Milliseconds(500));
  EXPECT_EQ(swarm_.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm_.Tokens(request_), Counting(120, 6));
}

}  // namespace
}  // namespace weft::swarm
