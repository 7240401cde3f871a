// Devices that come back with what they held, devices that leave in order, and requests that take
// one device after the other down.
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
using wire::pb::ServerMessage;
using wire::pb::WorkerMessage;

// Two stages of three layers; 24 tokens are known, the last stage computes the row of the last one.
struct TwoStages {
  TwoStages() {
    swarm.BringUp(2, Half());
    front = swarm.picture().stages[0].worker;
    back = swarm.picture().stages[1].worker;
    swarm.worker(back).answer_steps = false;
    request = swarm.Submit(Counting(100, 20), 10);
    while (swarm.Tokens(request).size() < 4) swarm.AnswerStep(back);
    swarm.ClearLog();
  }
  TestSwarm swarm;
  WorkerId front = 0, back = 0;
  RequestId request;
};

TEST(Return, GoesOnWhereItWas) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.Lose(two.front);
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  swarm.AnswerSteps(two.back);
  swarm.Advance(Seconds(5));
  const WorkerId again = swarm.Return(two.front);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Sent(again), "init");
  EXPECT_EQ(swarm.Rows(again), "[24,29) hidden");
  EXPECT_EQ(swarm.Rows(two.back), "[24,29) argmax");
  EXPECT_EQ(swarm.Tokens(two.request), Counting(124, 6));
}

// A device notices first that its line broke, and the server seconds later.
TEST(Return, BeforeItIsMissedCostsNothing) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  const WorkerId again = swarm.ReturnUnmissed(two.front);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().stages[0].worker, again);
  EXPECT_EQ(swarm.picture().workers.size(), 2u) << "the old line was ended";
  EXPECT_EQ(swarm.Sent(again), "init");
  swarm.AnswerSteps(two.back);
  EXPECT_EQ(swarm.Tokens(two.request), Counting(124, 6));
}

TEST(Return, AnotherLineOfTheDeviceStaysWhereItHoldsOther) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  TestWorker twin = Half();
  twin.device_id = swarm.worker(two.front).device_id;
  swarm.Join(twin);
  EXPECT_EQ(swarm.picture().workers.size(), 3u);
  EXPECT_EQ(swarm.picture().stages[0].worker, two.front);
}

// The answer to what was on its way went with the line: that row is computed again.
TEST(Return, WhatWasNotAnsweredIsNotKnown) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.Lose(two.back);
  const WorkerId again = swarm.Return(two.back);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.AnswerSteps(again);
  EXPECT_EQ(swarm.Rows(again), "[23,29) argmax");
  EXPECT_EQ(swarm.Rows(two.front), "[24,29) hidden");
  EXPECT_EQ(swarm.Tokens(two.request), Counting(124, 6));
}

TEST(Return, EverybodyAtOnce) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.Lose(two.front);
  swarm.Lose(two.back);
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  swarm.hold_plans = true;
  const WorkerId front = swarm.Return(two.front);
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  const WorkerId back = swarm.Return(two.back);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp) << "everything that is needed has come back";
  swarm.AnswerSteps(back);
  EXPECT_EQ(swarm.Rows(front), "[24,29) hidden");
  EXPECT_EQ(swarm.Rows(back), "[23,29) argmax");
  EXPECT_EQ(swarm.Tokens(two.request), Counting(124, 6));
}

// Somebody else has taken its place: it stands by, and holds what it had.
TEST(Return, ToAPlaceThatIsTakenIsAStandby) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.Lose(two.front);
  const WorkerId late = swarm.Join(Half());
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().stages[0].worker, late);
  const WorkerId again = swarm.Return(two.front);
  EXPECT_EQ(swarm.picture().stages[0].worker, late);
  EXPECT_THAT(swarm.Sent(again), Not(HasSubstr("prepare_stage")));
  EXPECT_EQ(swarm.picture().standbys.at(0).worker, again);
  swarm.ClearLog();
  swarm.hold_plans = true;
  swarm.Lose(late);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.AnswerSteps(two.back);
  EXPECT_EQ(swarm.Rows(again), "[24,29) hidden");
  EXPECT_EQ(swarm.Tokens(two.request), Counting(124, 6));
}

TEST(Return, WhileSomebodyElseLoadsForItsPlaceEndsThat) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.Lose(two.front);
  TestWorker held = Half();
  held.answer_prepare = false;
  const WorkerId late = swarm.Join(held);
  swarm.Advance(Milliseconds(200));
  ASSERT_THAT(swarm.Sent(late), HasSubstr("prepare_stage"));
  const WorkerId again = swarm.Return(two.front);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().stages[0].worker, again);
  EXPECT_THAT(swarm.Sent(late), HasSubstr("prepare_stage release"));
  swarm.Control(late, swarm.Prepared(late));  // too late, and no offence
  EXPECT_THAT(swarm.CloseReasons(late), IsEmpty());
}

TEST(Return, SessionsThatEndedMeanwhileAreForgotten) {
  TestSwarm swarm;  // two sessions
  swarm.BringUp(2, Half());
  const WorkerId front = swarm.picture().stages[0].worker;
  swarm.Submit(Counting(100, 20), 2);
  swarm.Submit(Counting(300, 20), 2);
  swarm.Lose(front);
  swarm.Submit(Counting(500, 20), 2);  // in the place of the first one
  const WorkerId again = swarm.Return(front);
  EXPECT_THAT(
      swarm.Last(again, ServerMessage::kInvalidateSessions).invalidate_sessions().sessions(),
      ElementsAre(1));
  EXPECT_EQ(swarm.Rows(again, 2), "");
  EXPECT_EQ(swarm.Rows(again, 3), "[0,21) hidden");
}

// A conversation that went on with other tokens while its worker was away.
TEST(Return, RowsOfOtherTokensAreNotBelieved) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId front = swarm.picture().stages[0].worker;
  swarm.Submit(Counting(100, 20), 5);
  swarm.Lose(front);
  std::vector<int32_t> other = Counting(100, 18);
  other.push_back(700);
  const RequestId request = swarm.Submit(other, 2);
  const WorkerId again = swarm.Return(front);
  EXPECT_EQ(swarm.Rows(again), "[18,20) hidden");
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(701, 702));
}

TEST(Return, AfterTooLongOrAsAStrangerItBeginsWithNothing) {
  for (const bool stranger : {false, true}) {
    TwoStages two;
    TestSwarm& swarm = two.swarm;
    if (stranger) swarm.worker(two.front).device_id = "somebody else";
    swarm.Lose(two.front);
    swarm.AnswerSteps(two.back);
    if (!stranger) swarm.Advance(Seconds(61));
    const WorkerId again = swarm.Return(two.front);
    EXPECT_THAT(swarm.Sent(again), HasSubstr("init release"));
    swarm.Advance(Milliseconds(200));
    EXPECT_EQ(swarm.Rows(again), "[0,24) none [24,29) hidden");
    EXPECT_EQ(swarm.Tokens(two.request), Counting(124, 6));
  }
}

TEST(Return, ClaimsOfWhatItWasNeverGivenAreDropped) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.Lose(two.front);
  const TestWorker worker = [] {
    TestWorker same = Half();
    same.device_id = "device1";
    return same;
  }();
  ASSERT_EQ(two.front, WorkerId(1)) << "whose device has this name";
  const WorkerId id = swarm.Open(worker);
  WorkerMessage connect = swarm.ConnectOf(id);
  auto& held = *connect.mutable_connect()->add_held();
  held.set_id(1);
  held.mutable_layers()->set_first(0);
  held.mutable_layers()->set_end(6);  // it had the first three
  swarm.Control(id, connect);
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  EXPECT_EQ(swarm.Sent(id), "init release");
  EXPECT_THAT(swarm.CloseReasons(id), IsEmpty());
}

// ---- leaving ----

WorkerMessage Leaving(bool draining) {
  WorkerMessage message;
  message.mutable_leaving()->set_reason("its user said so");
  message.mutable_leaving()->set_draining(draining);
  return message;
}

TEST(Leaving, WithTimeItGoesOnUntilItsLayersAreElsewhere) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.AnswerSteps(two.back);
  const WorkerId late = swarm.Join(Half());
  swarm.Advance(Milliseconds(10));  // not planned with yet
  swarm.worker(late).answer_prepare = false;
  swarm.worker(two.back).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(500, 5), 8);
  swarm.ClearLog();
  swarm.Control(two.front, Leaving(true));
  swarm.Advance(Milliseconds(200));
  ASSERT_THAT(swarm.Sent(late), HasSubstr("prepare_stage"));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.AnswerStep(two.back);
  swarm.AnswerStep(two.back);
  EXPECT_THAT(swarm.Tokens(request), SizeIs(2)) << "it answers meanwhile";
  EXPECT_THAT(swarm.CloseReasons(two.front), IsEmpty());
  swarm.AnswerPrepares(late);
  EXPECT_THAT(swarm.CloseReasons(two.front), ElementsAre("it left"));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.AnswerSteps(two.back);
  EXPECT_EQ(swarm.Tokens(request), Counting(505, 8));
  EXPECT_EQ(swarm.core().sizes().probation_records, 0u);
}

TEST(Leaving, IsWaitedForUpToALimit) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  swarm.AnswerSteps(two.back);
  swarm.Control(two.front, Leaving(true));
  const Duration limit = TestOptions().timeouts.leave_limit;
  swarm.Advance(limit - Milliseconds(1));
  EXPECT_THAT(swarm.CloseReasons(two.front), IsEmpty());
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.Advance(Milliseconds(1));
  EXPECT_THAT(swarm.CloseReasons(two.front), ElementsAre("it left"));
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
}

TEST(Leaving, WithoutTimeOrWithoutATaskItIsLetGoAtOnce) {
  TwoStages two;
  TestSwarm& swarm = two.swarm;
  const WorkerId idle = swarm.Join(Half());
  swarm.Control(idle, Leaving(true));
  EXPECT_THAT(swarm.CloseReasons(idle), ElementsAre("it left"));
  swarm.Control(two.front, Leaving(false));
  EXPECT_THAT(swarm.CloseReasons(two.front), ElementsAre("it left"));
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
}

// ---- requests that take devices down ----

TEST(Blame, ARequestThatTakesThreeDevicesDownIsGivenUp) {
  TestSwarm swarm;
  const RequestId deadly = swarm.Submit(Counting(1, 20), 5);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(swarm.Ends(deadly), IsEmpty()) << i;
    TestWorker worker;
    worker.answer_steps = false;
    swarm.BringUp(1, worker);
    const WorkerId id = swarm.picture().workers[0].id;
    swarm.AnswerStep(id);
    ASSERT_GT(swarm.unanswered_steps(id), 0u);
    swarm.Lose(id);
  }
  ASSERT_THAT(swarm.Ends(deadly), SizeIs(1));
  EXPECT_EQ(swarm.Ends(deadly)[0].reason, FinishReason::kError);
  EXPECT_THAT(swarm.Ends(deadly)[0].error->message(), HasSubstr("3 devices have gone"));
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Tokens(swarm.Submit({4}, 2)), Counting(5, 2));
}

// One device that comes and goes is no reason, nor are losses at different places.
TEST(Blame, ARequestThatGetsFurtherIsNot) {
  TestSwarm swarm;
  const RequestId request = swarm.Submit({1, 2, 3}, 12);
  for (int i = 0; i < 6; ++i) {
    TestWorker worker;
    worker.answer_steps = false;
    swarm.BringUp(1, worker);
    const WorkerId id = swarm.picture().workers[0].id;
    swarm.AnswerStep(id);
    swarm.Lose(id);
  }
  EXPECT_THAT(swarm.Ends(request), IsEmpty());
  EXPECT_THAT(swarm.Tokens(request), SizeIs(6));
  for (int i = 0; i < 4; ++i) {
    TestWorker worker;
    worker.answer_steps = false;
    worker.device_id = "the same laptop";
    swarm.BringUp(1, worker);
    swarm.Lose(swarm.picture().workers[0].id);
  }
  EXPECT_THAT(swarm.Ends(request), IsEmpty());
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Tokens(request), Counting(4, 12));
}

// ---- devices that the owner sends away ----

TEST(Evicted, ItsLayersMoveWhileItGoesOnAndNoTokenIsLost) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId front = swarm.picture().stages[0].worker;
  const WorkerId spare = swarm.Join(Half());
  swarm.Advance(Seconds(1));
  const RequestId request = swarm.Submit(Counting(100, 20), 10);
  swarm.Feed(WorkerEvicted{front, "Go, and come back in an hour."});
  swarm.Advance(Seconds(2));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().stages[0].worker, spare);
  EXPECT_EQ(swarm.Tokens(request), Counting(120, 10));
  EXPECT_THAT(swarm.CloseReasons(front), ElementsAre("Go, and come back in an hour."));
  EXPECT_THAT(swarm.Sent(front), HasSubstr("refused"));
}

TEST(Evicted, TheOnlyDeviceGoesAtOnceAndTheRequestWaits) {
  TestSwarm swarm;
  swarm.BringUp(1);
  const WorkerId only = swarm.picture().workers[0].id;
  swarm.worker(only).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(3, 4), 5);
  swarm.Feed(WorkerEvicted{only, "Go."});
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.CloseReasons(only), ElementsAre("Go."));
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Tokens(request), Counting(7, 5));
}

TEST(Evicted, IsToldSoWhenItComesBackUntilItIsLetIn) {
  std::string evicted = "laptop";
  CoreOptions options = TestOptions();
  options.find_eviction = [&evicted](const std::string& device) {
    return device == evicted ? std::optional<std::string>("Come back later.") : std::nullopt;
  };
  TestSwarm swarm(options);
  TestWorker laptop;
  laptop.device_id = "laptop";
  const WorkerId refused = swarm.Join(laptop);
  EXPECT_THAT(swarm.CloseReasons(refused), ElementsAre("Come back later."));
  TestWorker other;
  other.device_id = "phone";
  EXPECT_THAT(swarm.CloseReasons(swarm.Join(other)), IsEmpty());
  evicted.clear();
  EXPECT_THAT(swarm.CloseReasons(swarm.Join(laptop)), IsEmpty());
}

TEST(Evicted, NobodyIsForgottenThatHasGoneAlready) {
  TestSwarm swarm;
  swarm.BringUp(1);
  swarm.Feed(WorkerEvicted{WorkerId(99), "Go."});
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

// ---- what its owner is told of a device ----

TEST(ForOwner, SaysWhyADeviceGetsNothing) {
  TestSwarm swarm;
  swarm.BringUp(1);
  const auto aside_of = [&swarm](WorkerId id) {
    for (const WorkerSnapshot& worker : swarm.picture().workers)
      if (worker.id == id) return worker.aside;
    return AsideSnapshot{"it is not there", {}};
  };
  const WorkerId serving = swarm.picture().workers[0].id;
  EXPECT_EQ(aside_of(serving).reason, "");
  EXPECT_THAT(aside_of(swarm.Open()).reason, HasSubstr("has not said yet what it offers"));
  TestWorker short_of_memory;
  short_of_memory.answer_prepare = false;
  TestSwarm other;
  const WorkerId failing = other.Join(short_of_memory);
  other.Advance(Milliseconds(500));
  other.Control(failing, other.Failed(BindingId(1), ErrorCode::kOutOfMemory));
  const AsideSnapshot aside = other.picture().workers[0].aside;
  EXPECT_THAT(aside.reason, HasSubstr("ran out of memory"));
  ASSERT_TRUE(aside.for_s);
  EXPECT_GT(*aside.for_s, 0);
}

}  // namespace
}  // namespace weft::swarm
