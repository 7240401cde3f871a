// Workers that die, hang or fail in every state; the stream goes on, and what failed in other
// systems does not here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::pb::WorkerMessage;

TestWorker Held() {
  TestWorker worker;
  worker.answer_prepare = worker.answer_steps = false;
  return worker;
}

// One worker that computes; each step waits until the test answers it.
struct SteppedSwarm : TestSwarm {
  SteppedSwarm() {
    TestWorker worker;
    worker.answer_steps = false;
    BringUp(1, worker);
  }
};

TEST(Loss, WhilePreparing) {
  TestSwarm swarm;
  swarm.Join(Held());
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().state, SwarmState::kPreparing);
  swarm.Lose(1);
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  swarm.BringUp(1);
}

TEST(Loss, WhileAnotherOneIsStillLoading) {
  TestSwarm swarm;
  TestWorker held = Half();
  held.answer_prepare = false;
  swarm.Join(held);
  swarm.Join(held);
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().state, SwarmState::kPreparing);
  swarm.Control(1, swarm.Prepared(1));
  swarm.Lose(2);
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_GT(swarm.picture().missing_memory_bytes, 0u);
  swarm.worker(1).answer_prepare = true;
  swarm.Join(Half());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(Loss, WhileUpAndIdle) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  swarm.Lose(2);
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  EXPECT_THAT(swarm.picture().message, HasSubstr("its layers are missing. This swarm needs 3"));
  swarm.BringUp(1, Half());
  const RequestId request = swarm.Submit({5}, 3);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7, 8));
}

// Each number of steps answered before the loss is a different moment: in the prompt, between
// stages, in the answer.
TEST(Loss, AtEveryMomentOfARequest) {
  for (int answered = 0; answered < 40; ++answered) {
    for (const bool first_stage : {true, false}) {
      TestSwarm swarm;
      swarm.BringUp(2, Half());
      const WorkerId front = swarm.picture().stages[0].worker,
                     back = swarm.picture().stages[1].worker;
      swarm.worker(front).answer_steps = swarm.worker(back).answer_steps = false;
      const RequestId request = swarm.Submit(Counting(100, 20), 10);
      for (int i = 0; i < answered; ++i)
        for (const WorkerId id : {front, back})
          if (swarm.unanswered_steps(id) > 0 &&
              (i % 2 == (id == front ? 0 : 1) || swarm.unanswered_steps(id) > 1)) {
            swarm.AnswerStep(id);
            break;
          }
      swarm.Lose(first_stage ? front : back);
      const WorkerId survivor = first_stage ? back : front;
      swarm.worker(survivor).answer_steps = true;
      EXPECT_THAT(swarm.Ends(request), SizeIs(testing::Le(1)));
      while (swarm.unanswered_steps(survivor) > 0) swarm.AnswerStep(survivor);  // stale answers
      swarm.Join(Half());
      swarm.Advance(Seconds(1));
      EXPECT_EQ(swarm.Tokens(request), Counting(120, 10)) << answered;
      ASSERT_THAT(swarm.Ends(request), SizeIs(1));
      EXPECT_EQ(swarm.Ends(request)[0].reason, FinishReason::kLength);
      EXPECT_THAT(swarm.CloseReasons(survivor), IsEmpty());
    }
  }
}

TEST(Loss, OfTheActivePlanDuringAHotSwapFallsBackToTheStagedOne) {
  TestSwarm swarm;
  TestWorker slow = Held();
  slow.answer_prepare = true;
  slow.compute_us = 900'000;
  swarm.BringUp(1, slow);
  const RequestId request = swarm.Submit({10}, 30);
  for (int i = 0; i < 5; ++i) {
    swarm.Advance(Milliseconds(900));
    swarm.AnswerStep(1);
  }
  TestWorker fast = Held();
  fast.answer_steps = true;
  swarm.Join(fast);
  swarm.Advance(Milliseconds(300));
  ASSERT_THAT(swarm.Sent(2), HasSubstr("prepare_stage"));
  swarm.Lose(1);
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  swarm.Control(2, swarm.Prepared(2));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Tokens(request), Counting(11, 30));
}

TEST(Loss, OfTheStagedPlanDuringAHotSwapKeepsTheActiveOne) {
  TestSwarm swarm;
  TestWorker slow = Held();
  slow.answer_prepare = true;
  slow.compute_us = 900'000;
  swarm.BringUp(1, slow);
  const RequestId request = swarm.Submit({10}, 30);
  for (int i = 0; i < 5; ++i) {
    swarm.Advance(Milliseconds(900));
    swarm.AnswerStep(1);
  }
  swarm.Join(Held());
  swarm.Advance(Milliseconds(300));
  ASSERT_THAT(swarm.Sent(2), HasSubstr("prepare_stage"));
  const std::string sent = swarm.Sent(1);
  swarm.Lose(2);
  EXPECT_EQ(swarm.Sent(1), sent) << "the serving plan has nothing to do with it";
  swarm.AnswerSteps(1);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Tokens(request), Counting(11, 30));
}

// Two newcomers are staged and one goes: the other must not go on loading for nobody.
TEST(Loss, WhatIsPreparedForADroppedPlanIsCancelled) {
  TestSwarm swarm;
  TestWorker slow;
  slow.compute_us = 900'000;
  slow.answer_steps = false;
  swarm.BringUp(1, slow);
  swarm.Submit({10}, 50);
  TestWorker half = Half();
  half.answer_prepare = false;
  swarm.Join(half);
  swarm.Join(half);
  for (int i = 0; i < 20 && swarm.Sent(3).find("prepare_stage") == std::string::npos; ++i) {
    swarm.Advance(Milliseconds(900));
    swarm.AnswerStep(1);
  }
  ASSERT_THAT(swarm.Sent(2), HasSubstr("prepare_stage"));
  ASSERT_THAT(swarm.Sent(3), HasSubstr("prepare_stage"));
  const BindingId asked = swarm.bindings(2).at(0).id;
  swarm.hold_plans = true;
  swarm.ClearLog();
  swarm.Lose(3);
  EXPECT_EQ(swarm.Sent(2), "release prepare_stage");
  ASSERT_THAT(swarm.bindings(2), SizeIs(1));
  EXPECT_TRUE(swarm.bindings(2)[0].standby);
  // Its late answer to what was asked first is no offence.
  swarm.Control(2, swarm.Prepared(2, asked));
  EXPECT_THAT(swarm.CloseReasons(2), IsEmpty());
}

TEST(Loss, AllWorkersDieAndOthersJoinLater) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) swarm.worker(id).answer_steps = false;
  const RequestId first = swarm.Submit(Counting(50, 9), 5);
  swarm.AnswerStep(swarm.picture().stages[0].worker);
  swarm.Lose(1);
  swarm.Lose(2);
  const RequestId second = swarm.Submit({7}, 2);
  swarm.Advance(Seconds(600));
  EXPECT_THAT(swarm.Ends(first), IsEmpty());
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  // Nothing to do without anyone but to give them up one day.
  ASSERT_TRUE(swarm.core().next_timer().has_value());
  EXPECT_GT(*swarm.core().next_timer(), swarm.now() + Seconds(200));
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Tokens(first), Counting(59, 5));
  EXPECT_EQ(swarm.Tokens(second), Counting(8, 2));
}

TEST(Loss, LeavingIsALossWithoutBlame) {
  TestSwarm swarm;
  for (int i = 0; i < 5; ++i) {
    TestWorker worker;
    worker.device_id = "the same tab";
    const WorkerId id = swarm.Join(worker);
    swarm.Advance(Milliseconds(200));
    ASSERT_EQ(swarm.picture().state, SwarmState::kUp) << i;
    WorkerMessage leaving;
    leaving.mutable_leaving()->set_reason("closed");
    swarm.Control(id, leaving);
    EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
    EXPECT_THAT(swarm.CloseReasons(id), ElementsAre("it left"));
  }
}

TestWorker SameDevice() {
  TestWorker worker;
  worker.device_id = "the same laptop";
  worker.answer_steps = false;
  return worker;
}

// A lid that is closed, a process that is killed, a cable that is pulled: in the middle of a step,
// again and again, and the device is as welcome as ever.
TEST(Loss, GoingAwayIsNoFailureHoweverOften) {
  TestSwarm swarm;
  swarm.Submit({1, 2, 3}, 5);
  for (int i = 0; i < 6; ++i) {
    const WorkerId id = swarm.Join(SameDevice());
    swarm.Advance(Milliseconds(200));
    ASSERT_EQ(swarm.picture().state, SwarmState::kUp) << i;
    ASSERT_EQ(swarm.unanswered_steps(id), 1u);
    if (i % 2 == 0) {
      swarm.Lose(id);
    } else {
      swarm.worker(id).answer_pings = false;
      swarm.Advance(Seconds(40));
      EXPECT_THAT(swarm.CloseReasons(id), SizeIs(1));
    }
  }
  EXPECT_EQ(swarm.core().sizes().probation_records, 0u);
}

TEST(Loss, AWorkerThatTalksButDoesNotComputeHasFailed) {
  TestSwarm swarm;
  swarm.Submit({1, 2, 3}, 5);
  for (int i = 0; i < 3; ++i) {
    const WorkerId id = swarm.Join(SameDevice());
    swarm.Advance(Seconds(40));
    EXPECT_THAT(swarm.CloseReasons(id), ElementsAre(HasSubstr("did not answer a step"))) << i;
  }
  swarm.Join(SameDevice());
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("cannot be used"));
}

// However often it failed: ten minutes without an answer would be worse.
TEST(Loss, WhereNothingElseCanServeADeviceIsTriedAgainAfterAMinute) {
  TestSwarm swarm;
  for (int i = 0; i < 9; ++i) {
    swarm.Submit({1, 2, 3}, 5);
    swarm.Join(SameDevice());
    swarm.Advance(Seconds(i < 8 ? 105 : 45));
    ASSERT_THAT(swarm.picture().workers, IsEmpty()) << "it failed again: " << i;
  }
  TestWorker mended = SameDevice();
  mended.answer_steps = true;
  swarm.Join(mended);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  swarm.Advance(Seconds(60));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(Loss, SilenceForTenSeconds) {
  TestSwarm swarm;
  TestWorker worker;
  worker.answer_pings = false;
  worker.kind = "web";
  worker.engine = "ort-wasm";
  worker.needs_onnx = true;  // is not timed while it serves: nothing is said at all
  swarm.BringUp(1, worker);
  swarm.Advance(Milliseconds(9700));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.Advance(Milliseconds(400));
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("Nothing was heard from it for 10 s")));
}

// A tab that answers one step at a time, when the test says so.
TestWorker SteppedTab() {
  TestWorker worker;
  worker.kind = "web";
  worker.engine = "webgpu";
  worker.answer_steps = false;
  return worker;
}

// One that answers pings is slow rather than gone.
TEST(Loss, AStepThatIsNotAnsweredInTime) {
  for (const bool answers_pings : {true, false}) {
    TestSwarm swarm;
    swarm.BringUp(1, SteppedTab());
    const RequestId request = swarm.Submit({1}, 5);
    // The first steps of a binding may take long: shaders, page faults.
    swarm.Advance(Seconds(25));
    EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
    swarm.worker(1).answer_pings = answers_pings;
    swarm.AnswerStep(1);
    const Duration limit = answers_pings ? Seconds(10) : Seconds(2);
    swarm.Advance(limit - Milliseconds(100));
    EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
    swarm.Advance(Milliseconds(200));
    EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("did not answer a step")));
    swarm.BringUp(1, TestWorker());
    EXPECT_EQ(swarm.Tokens(request), Counting(2, 5));
  }
}

// Pongs that end at 3 s say that it lives until 5 s.
TEST(Loss, ASlowStepOfOneThatFallsSilent) {
  TestSwarm swarm;
  swarm.BringUp(1, SteppedTab());
  swarm.Submit({1}, 5);
  swarm.AnswerStep(1);
  swarm.Advance(Seconds(3));
  swarm.worker(1).answer_pings = false;
  swarm.Advance(Milliseconds(1400));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.Advance(Milliseconds(700));
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("did not answer a step within 5 s")));
}

TEST(Loss, ASlowWorkerGetsFiveTimesItsPrediction) {
  TestSwarm swarm;
  TestWorker worker;
  worker.answer_steps = false;
  worker.compute_us = 2'000'000;
  swarm.BringUp(1, worker);
  swarm.Submit({1}, 20);
  for (int i = 0; i < 6; ++i) {
    swarm.Advance(Seconds(2));
    swarm.AnswerStep(1);
  }
  swarm.Advance(Milliseconds(9900));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.Advance(Milliseconds(300));
  EXPECT_THAT(swarm.CloseReasons(1), SizeIs(1));
}

// One row takes 300 ms and a chunk of 8 no longer, since weights are read once for all rows. A
// chunk that hangs is noticed after five times that, not five times 8 x 300 ms.
TEST(Loss, DeadlinesOfChunksComeFromMeasuredChunks) {
  CoreOptions options = TestOptions();
  options.context_length = 512;
  TestSwarm swarm(options);
  TestWorker worker;
  worker.answer_steps = false;
  worker.compute_us = 300'000;
  swarm.BringUp(1, worker);
  swarm.Submit({1}, 4);
  const auto answer = [&] {
    swarm.Advance(Milliseconds(300));
    swarm.AnswerStep(1);
  };
  for (int i = 0; i < 4; ++i) answer();
  swarm.Submit(std::vector<int32_t>(200, 7), 4);
  for (int i = 0; i < 4; ++i) answer();
  ASSERT_EQ(swarm.step(1).header.rows, 8u);
  swarm.Advance(Milliseconds(1900));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.Advance(Milliseconds(200));
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("did not answer a step within 2 s")));
}

TEST(StepFailure, IsTriedAgainAndTheStreamGoesOn) {
  SteppedSwarm swarm;
  const RequestId request = swarm.Submit({1, 2}, 6);
  for (int i = 0; i < 4; ++i) {
    swarm.AnswerStep(1);
    swarm.FailStep(1, ErrorCode::kUnavailable, "the adapter was busy");
    if (i == 1) break;
  }
  EXPECT_EQ(swarm.picture().workers[0].problem, "the adapter was busy");
  swarm.worker(1).answer_steps = true;
  swarm.AnswerStep(1);
  EXPECT_EQ(swarm.Tokens(request), Counting(3, 6));
}

TEST(StepFailure, NumbersThatAreNotFiniteFailTheRequestAndNameTheLayer) {
  SteppedSwarm swarm;
  const RequestId bad = swarm.Submit({1, 2}, 6);
  swarm.FailStep(1, ErrorCode::kInvalidData, "Layer 3 gave 7 values that are not finite.");
  ASSERT_THAT(swarm.Ends(bad), SizeIs(1));
  EXPECT_EQ(swarm.Ends(bad)[0].reason, FinishReason::kError);
  EXPECT_THAT(swarm.Ends(bad)[0].error->message(), HasSubstr("Layer 3"));
  EXPECT_EQ(swarm.picture().failed_requests, 1u);
  swarm.worker(1).answer_steps = true;
  EXPECT_EQ(swarm.Tokens(swarm.Submit({4}, 2)), Counting(5, 2));
}

TEST(StepFailure, InASharedFrameOnlyTheGuiltyRequestFails) {
  CoreOptions options = TestOptions();
  options.session_count = 4;
  options.queue_limit = 10;
  TestSwarm swarm(options);
  TestWorker worker;
  worker.answer_steps = false;
  swarm.BringUp(1, worker);
  std::vector<RequestId> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(swarm.Submit({100 * (i + 1)}, 6));
  const auto runs = [&] { return wire::DecodeFrame(swarm.ResultOf(1)).value().runs; };
  // Two frames are under way with one run each; all four share the next one.
  EXPECT_THAT(runs(), SizeIs(1));
  swarm.AnswerStep(1);
  EXPECT_THAT(runs(), SizeIs(1));
  swarm.AnswerStep(1);
  EXPECT_THAT(runs(), SizeIs(4));
  int alone_failures = 0;
  for (int i = 0; i < 100 && swarm.unanswered_steps(1) > 0; ++i) {
    const auto now = runs();
    const bool guilty =
        std::any_of(now.begin(), now.end(), [](const wire::Run& run) { return run.session == 4; });
    if (!guilty) {
      swarm.AnswerStep(1);
      continue;
    }
    alone_failures += now.size() == 1;
    swarm.FailStep(1, ErrorCode::kInvalidData, "Layer 2 gave 1 value that is not finite.");
  }
  EXPECT_EQ(alone_failures, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(swarm.Tokens(requests[static_cast<size_t>(i)]), Counting(100 * (i + 1) + 1, 6));
    EXPECT_EQ(swarm.Ends(requests[static_cast<size_t>(i)])[0].reason, FinishReason::kLength);
  }
  ASSERT_THAT(swarm.Ends(requests[3]), SizeIs(1));
  EXPECT_EQ(swarm.Ends(requests[3])[0].reason, FinishReason::kError);
  EXPECT_THAT(swarm.Ends(requests[3])[0].error->message(), HasSubstr("Layer 2"));
}

// The others of the frame may have been the reason, wherever they are now.
TEST(StepFailure, WhoIsLeftOfASharedFrameIsNotGuiltyForThat) {
  CoreOptions options = TestOptions();
  options.session_count = 4;
  TestSwarm swarm(options);
  TestWorker worker;
  worker.answer_steps = false;
  swarm.BringUp(1, worker);
  std::vector<RequestId> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(swarm.Submit({100 * (i + 1)}, 6));
  swarm.AnswerStep(1);
  swarm.AnswerStep(1);
  const auto runs = wire::DecodeFrame(swarm.ResultOf(1)).value().runs;
  ASSERT_THAT(runs, SizeIs(4));
  const RequestId left = requests[3];
  for (const RequestId request : requests)
    if (request != left) swarm.Cancel(request);
  swarm.FailStep(1, ErrorCode::kInvalidData, "Layer 2 gave 1 value that is not finite.");
  EXPECT_THAT(swarm.Ends(left), IsEmpty());
  swarm.worker(1).answer_steps = true;
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  EXPECT_EQ(swarm.Tokens(left), Counting(401, 6));
}

TEST(StepFailure, EndlessFailuresEndTheRequestAndPutTheWorkerAside) {
  CoreOptions options = TestOptions();
  options.timeouts.token_limit = Seconds(100'000);
  TestSwarm swarm(options);
  TestWorker worker;
  worker.answer_steps = false;
  swarm.BringUp(1, worker);
  const RequestId request = swarm.Submit({1, 2}, 6);
  int failures = 0;
  for (int i = 0; i < 10'000 && swarm.Ends(request).empty(); ++i) {
    if (swarm.unanswered_steps(1) > 0) {
      swarm.FailStep(1, ErrorCode::kIo, "the device is broken");
      ++failures;
    } else {
      swarm.Advance(Seconds(1));
    }
  }
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  EXPECT_EQ(swarm.Ends(request)[0].reason, FinishReason::kError);
  EXPECT_THAT(swarm.Ends(request)[0].error->message(), HasSubstr("the device is broken"));
  EXPECT_EQ(failures, 9);
}

// It is connected still and has its layers loaded: that must not make it its own replacement.
TEST(StepFailure, AWorkerThatIsPutAsideLeavesAHole) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId back = swarm.picture().stages[1].worker;
  swarm.worker(back).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 5), 3);
  for (int i = 0; i < 4 && swarm.unanswered_steps(back) > 0; ++i)
    swarm.FailStep(back, ErrorCode::kIo, "the device is broken");
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  EXPECT_EQ(swarm.picture().stages[1].worker, WorkerId(0));
  EXPECT_THAT(swarm.bindings(back), IsEmpty()) << "it is not to stand by either";
  swarm.Join(Half());
  swarm.Advance(Milliseconds(200));
  EXPECT_NE(swarm.picture().stages[1].worker, back);
  EXPECT_EQ(swarm.Tokens(request), Counting(105, 3));
}

TEST(StepFailure, AFailureOfAStepThatNobodyWaitsForIsNoFailure) {
  SteppedSwarm swarm;
  const RequestId request = swarm.Submit({1, 2}, 6);
  swarm.Cancel(request);
  swarm.FailStep(1, ErrorCode::kInvalidArgument, "unknown session");
  EXPECT_EQ(swarm.picture().workers[0].problem, "");
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

// 24 tokens of prompt in chunks of 8 over two stages: the second chunk fails at the second stage.
// The rows that it needs are kept, so the first stage hears nothing of it.
TEST(StepFailure, OnlyTheStageThatFailedGoesBack) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId front = swarm.picture().stages[0].worker;
  const WorkerId back = swarm.picture().stages[1].worker;
  swarm.worker(back).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 24), 3);
  ASSERT_EQ(swarm.Rows(front), "[0,24) hidden");
  swarm.AnswerStep(back);  // 8 positions are complete
  ASSERT_EQ(swarm.step(back).runs[0].first_position, 8u);
  ASSERT_EQ(swarm.unanswered_steps(back), 2u);
  swarm.FailStep(back, ErrorCode::kUnavailable, "the adapter was busy");
  swarm.AnswerStep(back);  // of the third chunk: it is refused, and nobody waits for it
  ASSERT_EQ(swarm.unanswered_steps(back), 2u);
  EXPECT_EQ(swarm.step(back).runs[0].first_position, 8u);
  // It fails again at the same place: what this stage holds is not trusted any more.
  swarm.FailStep(back, ErrorCode::kUnavailable, "it does not know this session");
  for (const WorkerSnapshot& worker : swarm.picture().workers)
    EXPECT_EQ(worker.problem, worker.id == back ? "the adapter was busy" : "");  // and not twice
  swarm.AnswerSteps(back);
  EXPECT_EQ(swarm.Rows(back),
            "[0,16) none [16,24) argmax [8,16) none [16,24) argmax [0,16) none [16,26) argmax");
  EXPECT_EQ(swarm.Rows(front), "[0,26) hidden") << "each row once";
  EXPECT_EQ(swarm.Tokens(request), Counting(124, 3));
}

// The same at the first stage: what it gives a second time is not sent on.
TEST(StepFailure, OfTheFirstStageIsNotFeltBehindIt) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId front = swarm.picture().stages[0].worker;
  const WorkerId back = swarm.picture().stages[1].worker;
  swarm.worker(front).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 24), 3);
  swarm.AnswerStep(front);
  swarm.FailStep(front, ErrorCode::kUnavailable, "the adapter was busy");
  swarm.AnswerStep(front);  // refused
  swarm.FailStep(front, ErrorCode::kUnavailable, "it does not know this session");
  swarm.AnswerSteps(front);
  EXPECT_EQ(swarm.Rows(front), "[0,24) hidden [8,24) hidden [0,8) none [8,26) hidden");
  EXPECT_EQ(swarm.Rows(back), "[0,16) none [16,26) argmax");
  EXPECT_EQ(swarm.Tokens(request), Counting(124, 3));
}

// ---- past failures of this field ----

// A dead instance was chosen first because it was "least loaded".
TEST(PastFailures, ADeadWorkerIsNotChosenBecauseItIsLeastLoaded) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker idle;
  idle.run_us = 10;             // on paper the best one
  idle.answer_prepare = false;  // in truth it does nothing
  idle.device_id = "zombie";
  swarm.Join(idle);
  const RequestId before = swarm.Submit({1}, 3);
  EXPECT_EQ(swarm.Tokens(before), Counting(2, 3));
  for (int i = 0; i < 40; ++i) {
    swarm.Advance(Seconds(10));
    const RequestId request = swarm.Submit({1}, 3);
    EXPECT_EQ(swarm.Tokens(request), Counting(2, 3)) << i;
    // It comes back each time it is thrown out, still idle, still dead.
    if (swarm.picture().workers.size() == 1) swarm.Join(idle);
  }
  int prepares = 0;
  for (const Action& action : swarm.log())
    if (const auto* control = std::get_if<SendControl>(&action);
        control && control->worker > 1 && control->message.has_prepare_stage())
      ++prepares;
  EXPECT_LE(prepares, 8);  // tried, put aside, tried more and more rarely
}

// A dead runner was still listed while requests hung.
TEST(PastFailures, ADeadRunnerIsNotListedWhileRequestsHang) {
  TestSwarm swarm;
  TestWorker worker;
  swarm.BringUp(1, worker);
  swarm.worker(1).answer_steps = swarm.worker(1).answer_pings = false;
  const RequestId request = swarm.Submit({1}, 3);
  swarm.Advance(Seconds(40));
  EXPECT_THAT(swarm.picture().workers, IsEmpty());
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("open the join link"));
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Tokens(request), Counting(2, 3));
}

}  // namespace
}  // namespace weft::swarm
