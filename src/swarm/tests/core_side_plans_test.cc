// Plans that serve beside the active one: how they come and go, and who answers what.
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

CoreOptions FourSessions() {
  CoreOptions options = TestOptions();
  options.session_count = 4;
  return options;
}

// Takes its time for a step, the same as what it was timed with.
TestWorker Busy() {
  TestWorker worker;
  worker.compute_us = 600;
  worker.takes_time = true;
  return worker;
}

// One device that serves, and others that come later and stand by with all of it. From then on
// they answer steps when a test says so.
struct SideBySide {
  explicit SideBySide(size_t others = 1, const TestWorker& worker = Busy())
      : swarm(FourSessions()) {
    swarm.BringUp(1, worker);
    // How long it takes is known of it then; those that come later are timed.
    if (worker.makes_tokens == 0) swarm.Submit({1}, 12);
    swarm.Advance(Seconds(1));
    for (size_t i = 0; i < others; ++i) swarm.Join(worker);
    swarm.Advance(Seconds(60));
    for (WorkerId id = 1; id.value() <= others + 1; ++id) swarm.worker(id).answer_steps = false;
    swarm.hold_plans = true;
    swarm.ClearLog();
  }
  // The workers that have been asked for steps of the session, in order, each once.
  std::vector<WorkerId> AskedFor(uint32_t session) const {
    std::vector<WorkerId> asked;
    for (const TestRun& run : swarm.runs())
      if (run.run.session == session && (asked.empty() || asked.back() != run.worker))
        asked.push_back(run.worker);
    return asked;
  }
  TestSwarm swarm;
};

TEST(SidePlans, DevicesThatHoldTheModelAnswerSideBySide) {
  SideBySide side(2);
  TestSwarm& swarm = side.swarm;
  ASSERT_THAT(swarm.picture().stages, SizeIs(1));
  ASSERT_THAT(swarm.picture().side_plans, SizeIs(2));
  EXPECT_THAT(swarm.picture().message,
              HasSubstr("Ready: 1 device computes the model. Beside it 2 devices answer other "
                        "conversations."));
  std::vector<RequestId> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(swarm.Submit({10 * i + 10}, 3));
  for (WorkerId id = 1; id <= 3; ++id) EXPECT_EQ(swarm.unanswered_steps(id), 1u) << id;
  EXPECT_EQ(swarm.picture().side_plans[0].active_requests, 1u);
  for (WorkerId id = 1; id <= 3; ++id) swarm.AnswerSteps(id);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(swarm.Tokens(requests[static_cast<size_t>(i)]), Counting(10 * i + 11, 3));
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().side_tokens, 6u);
  for (const WorkerSnapshot& worker : swarm.picture().workers)
    EXPECT_EQ(worker.state, WorkerState::kActive);
}

TEST(SidePlans, TheActivePlanComesFirst) {
  TestWorker worker = Busy();
  worker.run_us = 110;
  SideBySide side(1, worker);
  side.swarm.Submit({10}, 3);
  EXPECT_EQ(side.swarm.unanswered_steps(1), 1u);
  EXPECT_EQ(side.swarm.unanswered_steps(2), 0u);
}

TEST(SidePlans, SmallDevicesThatStandByMakeAChain) {
  TestSwarm swarm(FourSessions());
  swarm.BringUp(1, Silent());
  TestWorker half = Half();
  half.answer_steps = false;
  const WorkerId first = swarm.Join(half), second = swarm.Join(half);
  swarm.Advance(Seconds(60));
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  ASSERT_THAT(swarm.picture().side_plans, SizeIs(1));
  const std::vector<StageSnapshot> chain = swarm.picture().side_plans[0].stages;
  ASSERT_THAT(chain, SizeIs(2));
  EXPECT_EQ(chain[0].end_layer, chain[1].first_layer);
  EXPECT_EQ(std::minmax(chain[0].worker, chain[1].worker), std::minmax(first, second));
  // Its devices were timed as slower than the one that has the whole model: they come in turn.
  std::vector<RequestId> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(swarm.Submit({10 * i + 10}, 3));
  EXPECT_GT(swarm.unanswered_steps(chain[0].worker), 0u);
  for (const WorkerId id : {WorkerId{1}, first, second}) swarm.AnswerSteps(id);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(swarm.Tokens(requests[static_cast<size_t>(i)]), Counting(10 * i + 11, 3));
}

TEST(SidePlans, OneThatGoesLeavesItsAnswersToTheOthers) {
  SideBySide side;
  TestSwarm& swarm = side.swarm;
  const RequestId first = swarm.Submit({10}, 4), second = swarm.Submit({50, 51, 52}, 4);
  swarm.AnswerStep(2);
  ASSERT_EQ(swarm.Tokens(second), Counting(53, 1));
  swarm.Lose(2);
  EXPECT_THAT(swarm.picture().side_plans, IsEmpty());
  EXPECT_EQ(side.AskedFor(3), (std::vector<WorkerId>{2, 1}));
  swarm.AnswerSteps(1);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(first), Counting(11, 4));
  EXPECT_EQ(swarm.Tokens(second), Counting(53, 4));
  EXPECT_THAT(swarm.Ends(second), SizeIs(1));
}

// Its binding is the active plan's from then on, so that what it answers goes on as it was.
TEST(SidePlans, OneTakesTheActivePlansPlace) {
  SideBySide side;
  TestSwarm& swarm = side.swarm;
  const RequestId first = swarm.Submit({10, 11}, 4), second = swarm.Submit({50}, 4);
  swarm.AnswerStep(1);
  swarm.AnswerStep(2);
  swarm.ClearLog();
  swarm.Lose(1);
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(2));
  EXPECT_THAT(swarm.picture().side_plans, IsEmpty());
  swarm.AnswerSteps(2);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Rows(2, 3).substr(0, 3), "[2,") << "row 1 was under way, and counts";
  EXPECT_EQ(swarm.Rows(2, 2).substr(0, 3), "[0,") << "it had none of the other's";
  EXPECT_THAT(swarm.Ends(first), SizeIs(1));
  EXPECT_THAT(swarm.Ends(second), SizeIs(1));
}

// Reading what it has would take long, and how long is a guess.
TEST(SidePlans, AConversationFollowsItsRowsIntoTheActivePlan) {
  SideBySide side(2);
  TestSwarm& swarm = side.swarm;
  swarm.Submit({10}, 12);
  std::vector<int32_t> prompt(30);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = 50 + static_cast<int32_t>(i);
  const RequestId long_one = swarm.Submit(prompt, 30);
  const RequestId quick = swarm.Submit({90}, 3);
  swarm.worker(3).compute_us = 50;
  swarm.AnswerSteps(3);
  ASSERT_THAT(swarm.Ends(quick), SizeIs(1));
  while (swarm.Tokens(long_one).size() < 3 && swarm.unanswered_steps(2) > 0) swarm.AnswerStep(2);
  ASSERT_THAT(swarm.Tokens(long_one), SizeIs(3));
  swarm.Lose(1);
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(2));
  swarm.ClearLog();
  for (int i = 0; i < 3; ++i) swarm.AnswerStep(2);
  EXPECT_EQ(side.AskedFor(3), std::vector<WorkerId>{2});
}

// The plan beside ends and its device becomes the active plan's in one event, while another device
// is there that would read the whole conversation again.
TEST(SidePlans, AConversationStaysWithADeviceThatABetterPlanTakes) {
  SideBySide side(2);
  TestSwarm& swarm = side.swarm;
  swarm.Submit({10}, 12);
  const RequestId long_one = swarm.Submit(Counting(100, 30), 12);
  while (swarm.Tokens(long_one).empty()) swarm.AnswerStep(2);
  ASSERT_THAT(swarm.Tokens(long_one), SizeIs(1));
  swarm.Join(Busy());
  swarm.Advance(Milliseconds(200));
  ASSERT_THAT(swarm.held_plans, Not(IsEmpty()));
  swarm.ClearLog();
  swarm.AnswerPlan({{2, {0, 6}}});
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(2));
  swarm.AnswerSteps(2);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(long_one), Counting(131, 11)) << "those behind the first one";
  EXPECT_EQ(side.AskedFor(3), std::vector<WorkerId>{2});
}

TEST(SidePlans, AnswersOfADeviceWhoseNumbersFailAreGivenElsewhere) {
  SideBySide side;
  TestSwarm& swarm = side.swarm;
  swarm.Submit({10}, 4);
  const RequestId second = swarm.Submit({50}, 4);
  swarm.FailStep(2, ErrorCode::kInvalidData, "Layer 3 gives numbers that are not finite.");
  EXPECT_THAT(swarm.picture().side_plans, IsEmpty());
  swarm.AnswerSteps(1);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(second), Counting(51, 4));
}

TEST(SidePlans, OneThatLeavesIsLetGoAtOnce) {
  SideBySide side;
  TestSwarm& swarm = side.swarm;
  swarm.Submit({10}, 4);
  const RequestId second = swarm.Submit({50}, 4);
  wire::pb::WorkerMessage leaving;
  leaving.mutable_leaving()->set_draining(true);
  swarm.Control(2, leaving);
  EXPECT_THAT(swarm.CloseReasons(2), ElementsAre(HasSubstr("left")));
  swarm.AnswerSteps(1);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(second), Counting(51, 4));
}

TEST(SidePlans, WhoHasAnsweredRestsBeforeItIsFedTheOthersRows) {
  SideBySide side;
  TestSwarm& swarm = side.swarm;
  swarm.Submit({10}, 12);
  swarm.Submit({60}, 12);
  swarm.AnswerSteps(1);
  swarm.AnswerSteps(2);
  ASSERT_EQ(side.AskedFor(2), (std::vector<WorkerId>{1}));
  ASSERT_EQ(side.AskedFor(3), (std::vector<WorkerId>{2}));
  swarm.Advance(Milliseconds(1500));
  EXPECT_EQ(side.AskedFor(2), (std::vector<WorkerId>{1})) << "the next one may come any moment";
  swarm.Advance(Seconds(4));
  EXPECT_EQ(side.AskedFor(2), (std::vector<WorkerId>{1, 2})) << "it stands by";
}

// The journal knows what stands by, and side plans are made of that.
TEST(SidePlans, TheyAreBackAfterARestartWithoutLoadingAnything) {
  SideBySide side(2);
  TestSwarm& swarm = side.swarm;
  ASSERT_THAT(swarm.picture().side_plans, SizeIs(2));
  swarm.Restart();
  std::vector<WorkerId> back;
  for (const WorkerId id : {WorkerId(3), WorkerId(1), WorkerId(2)})
    back.push_back(swarm.Return(id));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.picture().side_plans, SizeIs(2));
  for (const WorkerId id : back) {
    EXPECT_THAT(swarm.Sent(id), Not(HasSubstr("prepare_stage")));
    swarm.worker(id).answer_steps = false;
  }
  for (int i = 0; i < 3; ++i) swarm.Submit({10 * i + 10}, 3);
  for (const WorkerId id : back) EXPECT_EQ(swarm.unanswered_steps(id), 1u) << id;
}

// A request of 40 tokens has five of its answer from a device beside the active plan, when the core
// is lost. Whoever asked for it asks the next one.
class AdoptionBeside : public testing::Test {
 protected:
  AdoptionBeside() {
    swarm.Submit({10}, 20);
    request.id = swarm.Submit(Counting(100, 40), 20);
    while (swarm.Tokens(request.id).size() < 5) swarm.AnswerStep(2);
    request.prompt_ids = Counting(100, 40);
    request.answer_ids = swarm.Tokens(request.id);
    request.resume = swarm.Trace(request.id);
    request.id = 90;
    request.max_tokens = 20;
    request.sampling.temperature = 0;
    for (WorkerId id = 1; id <= 2; ++id) swarm.worker(id).answer_steps = true;
    swarm.Restart([](CoreOptions& options) { options.timeouts.newcomer = Seconds(3); });
  }

  SideBySide side;
  TestSwarm& swarm = side.swarm;
  Request request;
};

// Its device has served before: it need not stay for a while first.
TEST_F(AdoptionBeside, ItGoesOnWhereItWas) {
  for (WorkerId id = 1; id <= 2; ++id) swarm.Return(id);
  swarm.ClearLog();
  swarm.Submit(request);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(90), Counting(145, 15));
  ASSERT_THAT(swarm.runs(), Not(IsEmpty()));
  for (const TestRun& run : swarm.runs()) EXPECT_GE(run.run.first_position, 44u);
}

TEST(SidePlans, ADeviceThatIsTimedIsPlacedAnew) {
  TestSwarm swarm(FourSessions());
  swarm.BringUp(1, Busy());
  swarm.Submit({1}, 12);
  swarm.Advance(Seconds(1));
  const auto times_of_last = [&swarm] {
    return swarm.core().placement().devices.back().times.overhead_us.has_value();
  };
  swarm.Join(Busy());
  uint64_t version = swarm.core().placement_version();
  for (int i = 0; i < 1000 && !times_of_last(); ++i) {
    version = swarm.core().placement_version();
    swarm.Advance(Milliseconds(1));
  }
  ASSERT_TRUE(times_of_last());
  EXPECT_GT(swarm.core().placement_version(), version);
}

TEST_F(AdoptionBeside, ItWaitsForItsDeviceWhileAnotherOneServes) {
  swarm.Return(1);
  swarm.ClearLog();
  swarm.Submit(request);
  swarm.Advance(Milliseconds(300));
  EXPECT_THAT(swarm.runs(), IsEmpty());
  const RequestId other = swarm.Submit({60}, 2);
  swarm.Advance(Milliseconds(20));
  EXPECT_THAT(swarm.Ends(other), SizeIs(1)) << "nobody else waits for it";
  swarm.ClearLog();
  swarm.Return(2);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(90), Counting(145, 15));
  ASSERT_THAT(swarm.runs(), Not(IsEmpty()));
  for (const TestRun& run : swarm.runs()) EXPECT_GE(run.run.first_position, 44u);
}

TEST_F(AdoptionBeside, ItDoesNotWaitForLong) {
  swarm.Return(1);
  swarm.ClearLog();
  swarm.Submit(request);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(90), Counting(145, 15));
  EXPECT_EQ(swarm.runs()[0].run.first_position, 0u);
}

TEST(SidePlans, AConversationStaysWhereItsRowsAre) {
  SideBySide side;
  TestSwarm& swarm = side.swarm;
  swarm.Submit({10}, 2);
  const std::vector<int32_t> prompt = Counting(100, 30);
  const RequestId second = swarm.Submit(prompt, 2);
  for (WorkerId id = 1; id <= 2; ++id) swarm.AnswerSteps(id);
  swarm.Advance(Seconds(1));
  ASSERT_THAT(swarm.Ends(second), SizeIs(1));
  swarm.ClearLog();
  std::vector<int32_t> next = Counting(100, 32);
  next.push_back(7);
  const RequestId third = swarm.Submit(next, 2);
  EXPECT_EQ(side.AskedFor(3), std::vector<WorkerId>{2}) << "though nobody asks the other one";
  EXPECT_EQ(swarm.Tokens(third), Counting(8, 2));
}

TEST(SidePlans, SlowOnesAnswerWhereOthersHaveTooMuchToDo) {
  TestSwarm swarm(FourSessions());
  swarm.BringUp(1, Busy());
  swarm.Submit({1}, 12);
  swarm.Advance(Seconds(1));
  TestWorker slow = Busy();
  slow.run_us = 1000;  // ten times as long: tried when others wait for long
  const WorkerId other = swarm.Join(slow);
  swarm.Advance(Seconds(60));
  for (WorkerId id = 1; id <= 2; ++id) swarm.worker(id).answer_steps = false;
  ASSERT_THAT(swarm.picture().side_plans, SizeIs(1));
  for (int i = 0; i < 2; ++i) swarm.Submit({10 * i + 10}, 3);
  EXPECT_EQ(swarm.unanswered_steps(other), 0u);
  for (int i = 2; i < 4; ++i) swarm.Submit({10 * i + 10}, 3);
  EXPECT_GT(swarm.unanswered_steps(other), 0u);
}

// A step takes them 600 and 660 us, however many rows it has: a tenth more is no reason to give
// one device all of them.
TEST(SidePlans, ConversationsSpreadOverDevicesThatAreAboutAsQuick) {
  SideBySide side;
  TestSwarm& swarm = side.swarm;
  swarm.worker(2).compute_us = 660;
  for (int i = 0; i < 2; ++i) {
    for (WorkerId id = 1; id <= 2; ++id) swarm.worker(id).answer_steps = false;
    swarm.Submit({10}, 12);  // both are measured
    swarm.Submit({60}, 12);
    for (WorkerId id = 1; id <= 2; ++id) swarm.AnswerSteps(id);
    swarm.Advance(Seconds(1));
  }
  for (WorkerId id = 1; id <= 2; ++id) swarm.worker(id).answer_steps = false;
  for (int i = 0; i < 4; ++i) swarm.Submit({100 * i + 100, 7}, 3);
  EXPECT_EQ(swarm.picture().side_plans[0].active_requests, 2u);
}

// What a device was timed with is a guess: where others wait anyway, it is tried.
TEST(SidePlans, OnesThatNobodyHasSeenAnswerAreTried) {
  TestSwarm swarm(FourSessions());
  swarm.BringUp(1, Busy());
  swarm.Submit({1}, 12);
  swarm.Advance(Seconds(1));
  TestWorker doubted = Busy();
  doubted.run_us = 300;  // it says so, and answers as quickly as the other one
  swarm.Join(doubted);
  swarm.Advance(Seconds(60));
  for (WorkerId id = 1; id <= 2; ++id) swarm.worker(id).answer_steps = false;
  ASSERT_THAT(swarm.picture().side_plans, SizeIs(1));
  swarm.Submit({10}, 3);
  EXPECT_EQ(swarm.unanswered_steps(1), 1u);
  EXPECT_EQ(swarm.unanswered_steps(2), 0u) << "nobody waits for the first one";
  swarm.Submit({20}, 3);
  EXPECT_EQ(swarm.unanswered_steps(2), 1u);
}

TEST(SidePlans, WhoeverWantsToRunTheModelAloneDoes) {
  TestWorker tab = Busy();
  tab.kind = "web";
  tab.makes_tokens = 1;
  SideBySide side(1, tab);
  ASSERT_THAT(side.swarm.picture().side_plans, SizeIs(1));
  side.swarm.AskWhole(2, true);
  EXPECT_THAT(side.swarm.picture().side_plans, IsEmpty());
  side.swarm.AskWhole(2, false);
  side.swarm.Advance(Seconds(3));
  EXPECT_THAT(side.swarm.picture().side_plans, SizeIs(1));
}

// Tokens that come of a Generate which nobody wants any more are not taken.
TEST(SidePlans, GeneratesEndWhereTheirPlanDoes) {
  TestWorker tab = Busy();
  tab.kind = "web";
  tab.makes_tokens = 4;
  SideBySide side(1, tab);
  TestSwarm& swarm = side.swarm;
  const RequestId first = swarm.Submit({10}, 20), second = swarm.Submit({50}, 20);
  ASSERT_THAT(swarm.generates(1), SizeIs(1));
  ASSERT_THAT(swarm.generates(2), SizeIs(1));
  swarm.TellTokens(2, 2);
  swarm.AskWhole(2, true);
  EXPECT_EQ(swarm.stops(2), 1u);
  swarm.AnswerStep(1);  // what the other one had of it
  EXPECT_THAT(swarm.generates(1), SizeIs(2));
  swarm.TellTokens(2, 1);
  EXPECT_EQ(swarm.Tokens(second), Counting(51, 2));
  for (int i = 0; i < 30 && !swarm.generates(1).empty(); ++i)
    swarm.TellTokens(1, std::min<uint32_t>(4, swarm.generates(1).front().count));
  EXPECT_EQ(swarm.Tokens(first).size() + swarm.Tokens(second).size(), 40u);
}

}  // namespace
}  // namespace weft::swarm
