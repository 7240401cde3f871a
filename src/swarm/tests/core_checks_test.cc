// Devices that answer, and whether what they compute is looked at: checks.h and whole_wishes.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using State = wire::WholeModel::State;

TestWorker Stranger() {
  TestWorker worker;
  worker.trusted = false;
  worker.address = "10.0.0.7";
  return worker;
}

// It has no weights: it claims to be a thousand times as fast as the server's own worker.
TestWorker Liar() {
  TestWorker worker = Stranger();
  worker.run_us = 0;
  worker.compute_us = 2;
  worker.wrong_rows = true;
  return worker;
}

std::string CheckOf(const TestSwarm& swarm, WorkerId id) {
  for (const WorkerSnapshot& worker : swarm.picture().workers)
    if (worker.id == id) return worker.check;
  return "gone";
}

std::string ProblemOf(const TestSwarm& swarm, WorkerId id) {
  for (const WorkerSnapshot& worker : swarm.picture().workers)
    if (worker.id == id) return worker.problem;
  return "gone";
}

size_t Warnings(const TestSwarm& swarm) {
  size_t count = 0;
  for (const Action& action : swarm.log()) count += std::holds_alternative<Warn>(action) ? 1 : 0;
  return count;
}

TEST(Checks, WhoComputesWhatTheServersOwnWorkerDoesIsUsed) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId id = swarm.Join(Stranger());
  swarm.Advance(Seconds(20));
  EXPECT_EQ(CheckOf(swarm, 1), "trusted");
  EXPECT_EQ(CheckOf(swarm, id), "passed");
  EXPECT_THAT(swarm.picture().stages, SizeIs(1));
  EXPECT_EQ(swarm.picture().stages[0].worker, id);
}

TEST(Checks, WhoHasNoWeightsIsNamedAndNotUsed) {
  TestSwarm swarm;
  swarm.BringUp(1);
  const WorkerId id = swarm.Join(Liar());
  swarm.Advance(Seconds(60));
  EXPECT_EQ(CheckOf(swarm, id), "failed");
  EXPECT_THAT(ProblemOf(swarm, id), HasSubstr("are not those of worker 1"));
  EXPECT_EQ(Warnings(swarm), 1u);
  ASSERT_THAT(swarm.picture().stages, SizeIs(1));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  EXPECT_THAT(swarm.bindings(id), IsEmpty());
  // Nor when nobody else is left, as another connection of the same device.
  swarm.Lose(id);
  swarm.Lose(1);
  TestWorker again = Liar();
  again.device_id = "device" + ToString(id);
  const WorkerId back = swarm.Join(again);
  swarm.Advance(Seconds(700));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.bindings(back), IsEmpty());
}

// Bytes between devices of one description; a tolerance between others, of what layers add.
TEST(Checks, ToleranceIsForOtherKernelsOnly) {
  const auto check_of = [](const std::string& device, float error) {
    TestSwarm swarm;
    swarm.BringUp(1);
    TestWorker worker = Stranger();
    worker.device = device;
    worker.row_error = error;
    const WorkerId id = swarm.Join(worker);
    swarm.Advance(Seconds(20));
    return CheckOf(swarm, id);
  };
  EXPECT_EQ(check_of("test", 0), "passed");
  EXPECT_EQ(check_of("test", 0.01f), "failed");
  EXPECT_EQ(check_of("another", 0.01f), "passed");
  EXPECT_EQ(check_of("another", 0.5f), "failed");
}

TEST(Checks, WithoutATrustedDeviceOthersAreUsedAndCheckedWhenOneComes) {
  TestSwarm swarm;
  const WorkerId honest = swarm.Join(Stranger());
  swarm.Advance(Seconds(20));
  TestWorker wrong = Liar();
  wrong.device = "another";
  const WorkerId liar = swarm.Join(wrong);
  swarm.Advance(Seconds(60));
  EXPECT_EQ(CheckOf(swarm, honest), "not checked");
  EXPECT_EQ(CheckOf(swarm, liar), "not checked");
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.Join();
  swarm.Advance(Seconds(20));
  EXPECT_EQ(CheckOf(swarm, honest), "passed");
  EXPECT_EQ(CheckOf(swarm, liar), "failed");
  for (const StageSnapshot& stage : swarm.picture().stages) EXPECT_NE(stage.worker, liar);
}

TEST(Checks, ADeviceOfTheFirstPlanIsCheckedWhileItServes) {
  TestSwarm swarm;
  swarm.Join(Half());
  TestWorker wrong = Half();
  wrong.trusted = false;
  wrong.wrong_rows = true;
  const WorkerId id = swarm.Join(wrong);
  swarm.Join(Half());
  swarm.Advance(Seconds(20));
  EXPECT_EQ(CheckOf(swarm, id), "failed");
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  for (const StageSnapshot& stage : swarm.picture().stages) EXPECT_NE(stage.worker, id);
}

TEST(Checks, AnAnswerThatIsNoneClosesTheConnection) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker worker = Stranger();
  worker.answer_measure = false;
  const WorkerId id = swarm.Join(worker);
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.Last(id, wire::pb::ServerMessage::kMeasureSpeed).measure_speed().probes_size(),
            1);
  wire::pb::WorkerMessage message;
  message.mutable_measured();
  swarm.Control(id, message);
  EXPECT_THAT(swarm.CloseReasons(id), ElementsAre(HasSubstr("expected 1 and 2")));
}

// The server's clock bounds what workers say: of a step of 20 ms over a line of no length no more
// than the handing over counts as anything else than computing.
TEST(Checks, ComputeTimeIsBoundedByWhatTheServerMeasured) {
  TestSwarm swarm;
  TestWorker worker = Silent();
  worker.compute_us = 2;
  swarm.BringUp(1, worker);
  swarm.Submit({5}, 30);
  for (int i = 0; i < 20; ++i) {
    swarm.Advance(Milliseconds(20));
    if (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  }
  EXPECT_GE(swarm.picture().workers[0].us_per_token, 9'000);
  EXPECT_LE(swarm.picture().workers[0].us_per_token, 20'000);
}

// One that is never met idle, and one that says that it takes no time at all.
TEST(Checks, ComputeTimeIsBoundedOfStepsBehindOthersToo) {
  for (const uint32_t claimed_us : {0u, 2u}) {
    CoreOptions options = TestOptions();
    options.prefill_chunk_rows = 1;
    options.prefill_chunk_time = {};
    TestSwarm swarm(options);
    TestWorker worker = Silent();
    worker.compute_us = claimed_us;
    swarm.BringUp(1, worker);
    swarm.Submit(Counting(0, 60), 1);
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(swarm.unanswered_steps(1), 2u);
      swarm.Advance(Milliseconds(20));
      swarm.AnswerStep(1);
    }
    EXPECT_GE(swarm.picture().workers[0].us_per_token, 9'000) << claimed_us;
    EXPECT_LE(swarm.picture().workers[0].us_per_token, 20'000) << claimed_us;
  }
}

// ---- who may run the whole model ----

TestWorker StrangersTab() {
  TestWorker tab = Stranger();
  tab.kind = "web";
  tab.engine = "webgpu";
  tab.makes_tokens = 1;
  tab.run_us = 100'000;
  return tab;
}

CoreOptions WithKey() {
  CoreOptions options = TestOptions();
  options.api_key_sha256_hex = ToHex(Sha256(AsBytes(std::string_view("the key"))));
  return options;
}

TEST(WhoMayRunItAll, AStrangerNeedsTheOwnersConsent) {
  TestSwarm swarm(WithKey());
  swarm.BringUp(1);
  const WorkerId tab = swarm.Join(StrangersTab());
  swarm.Advance(Seconds(20));
  ASSERT_EQ(CheckOf(swarm, tab), "passed");
  swarm.AskWhole(tab, true);
  EXPECT_EQ(swarm.told_whole(tab), State::kAsked);
  EXPECT_THAT(swarm.whole_message(tab), HasSubstr("has 30 s to agree"));
  ASSERT_THAT(swarm.picture().consents, SizeIs(1));
  EXPECT_EQ(swarm.picture().consents[0].worker, tab);
  swarm.Advance(Seconds(2));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  swarm.Feed(ConsentGiven{tab, true});
  EXPECT_EQ(swarm.told_whole(tab), State::kHere);
  EXPECT_THAT(swarm.picture().consents, IsEmpty());
  swarm.Advance(Seconds(2));
  EXPECT_EQ(swarm.picture().stages[0].worker, tab);
}

TEST(WhoMayRunItAll, SilenceIsANoAfterHalfAMinute) {
  TestSwarm swarm(WithKey());
  swarm.BringUp(1);
  const WorkerId tab = swarm.Join(StrangersTab());
  swarm.Advance(Seconds(20));
  swarm.AskWhole(tab, true, "a wrong key");
  swarm.Advance(Milliseconds(29'900));
  EXPECT_EQ(swarm.told_whole(tab), State::kAsked);
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.told_whole(tab), State::kFits);
  EXPECT_THAT(swarm.whole_message(tab), HasSubstr("counts as a no"));
  swarm.Feed(ConsentGiven{tab, true});
  EXPECT_EQ(swarm.told_whole(tab), State::kFits);
  // And once a minute.
  swarm.AskWhole(tab, true);
  EXPECT_THAT(swarm.whole_message(tab), HasSubstr("once a minute: try again in 30 s"));
  EXPECT_THAT(swarm.picture().consents, IsEmpty());
  swarm.Advance(Seconds(30));
  swarm.AskWhole(tab, true);
  swarm.Feed(ConsentGiven{tab, false});
  EXPECT_THAT(swarm.whole_message(tab), HasSubstr("did not agree"));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
}

TEST(WhoMayRunItAll, TheKeyAsksNobodyAndTheMinuteHoldsForAll) {
  TestSwarm swarm(WithKey());
  swarm.BringUp(1);
  const WorkerId tab = swarm.Join(StrangersTab());
  swarm.Advance(Seconds(20));
  swarm.AskWhole(tab, true, "the key");
  EXPECT_EQ(swarm.told_whole(tab), State::kHere);
  swarm.AskWhole(tab, false);
  swarm.AskWhole(tab, true, "the key");
  EXPECT_EQ(swarm.told_whole(tab), State::kFits);
  EXPECT_THAT(swarm.whole_message(tab), HasSubstr("once a minute"));
}

TEST(WhoMayRunItAll, AFurtherKeyOfAnOwnerIsAsGoodForAsLongAsTheHostSays) {
  CoreOptions options = TestOptions();
  bool is_good = false;
  options.is_owner_key = [&is_good](const std::string& hash) {
    return is_good && hash == ToHex(Sha256(AsBytes(std::string_view("a named key"))));
  };
  TestSwarm swarm(options);
  swarm.BringUp(1);
  const WorkerId tab = swarm.Join(StrangersTab());
  swarm.Advance(Seconds(20));
  swarm.AskWhole(tab, true, "a named key");
  EXPECT_EQ(swarm.told_whole(tab), State::kAsked);
  swarm.AskWhole(tab, false);
  swarm.Advance(Seconds(61));
  is_good = true;
  swarm.AskWhole(tab, true, "a named key");
  EXPECT_EQ(swarm.told_whole(tab), State::kHere);
}

TEST(WhoMayRunItAll, WhoHasNotPassedNeverReplacesAPlanThatServes) {
  TestSwarm swarm(WithKey());
  swarm.BringUp(1);
  TestWorker tab = StrangersTab();
  tab.answer_measure = false;
  const WorkerId id = swarm.Join(tab);
  swarm.Advance(Seconds(2));
  swarm.AskWhole(id, true);
  EXPECT_THAT(swarm.whole_message(id), HasSubstr("not checked yet"));
  TestWorker liar = Liar();
  liar.makes_tokens = 1;
  const WorkerId other = swarm.Join(liar);
  swarm.Advance(Seconds(40));
  swarm.AskWhole(other, true);
  EXPECT_EQ(swarm.told_whole(other), State::kTooLarge);
  swarm.Advance(Seconds(2));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
}

TEST(WhoMayRunItAll, WhoGoesIsNotAskedForAnyMore) {
  TestSwarm swarm(WithKey());
  swarm.BringUp(1);
  const WorkerId tab = swarm.Join(StrangersTab());
  swarm.Advance(Seconds(20));
  swarm.AskWhole(tab, true);
  swarm.AskWhole(tab, false);
  EXPECT_EQ(swarm.told_whole(tab), State::kFits);
  EXPECT_THAT(swarm.picture().consents, IsEmpty());
  swarm.Advance(Seconds(61));
  swarm.AskWhole(tab, true);
  swarm.Lose(tab);
  EXPECT_THAT(swarm.picture().consents, IsEmpty());
  swarm.Feed(ConsentGiven{tab, true});
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
}

}  // namespace
}  // namespace weft::swarm
