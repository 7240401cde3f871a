// Devices whose numbers fail: they are out, and somebody else is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kProblem[] = "Layer 3 gave 7 values that are not finite.";

// Holds the whole model, and is too slow to be planned with where others serve.
TestWorker Slow() {
  TestWorker worker;
  worker.run_us = 5000;
  return worker;
}

// Fails every step that these workers get until they get none any more.
void FailAll(TestSwarm& swarm, const std::vector<WorkerId>& broken) {
  for (bool any = true; any;) {
    any = false;
    for (const WorkerId id : broken)
      for (; swarm.unanswered_steps(id) > 0; any = true)
        swarm.FailStep(id, ErrorCode::kInvalidData, kProblem);
  }
}

// The answer to the worker's oldest step, whose last value is no number.
Slice NotFinite(const TestSwarm& swarm, WorkerId id) {
  const Slice result = swarm.ResultOf(id);
  const ByteSpan bytes = result.bytes();
  std::vector<uint8_t> answer(bytes.begin(), bytes.end());
  answer[answer.size() - 2] = 0x00;
  answer[answer.size() - 1] = 0x7e;
  return Slice(std::move(answer));
}

TEST(Blame, WhoseNumbersFailIsOutAndAnotherDeviceIsAsked) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  swarm.Join(Slow());
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  for (int i = 0; i < 30; ++i) {
    const RequestId request = swarm.Submit(Counting(100, 5), 4);
    FailAll(swarm, {1});
    ASSERT_EQ(swarm.Tokens(request), Counting(105, 4)) << "request " << i;
    if (i == 0) {
      EXPECT_EQ(swarm.picture().workers[0].problem, kProblem);
    }
    // Also when it has come back.
    swarm.Advance(Seconds(7));
  }
  EXPECT_EQ(swarm.picture().failed_requests, 0u);
}

TEST(Blame, ARequestFailsWhenTwoDevicesSaySo) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  swarm.Join(Silent());
  swarm.Join(Silent());
  swarm.Advance(Seconds(1));
  const RequestId request = swarm.Submit(Counting(100, 5), 4);
  int asked = 0;
  for (WorkerId id = 1; id <= 3; ++id)
    if (swarm.Ends(request).empty() && swarm.unanswered_steps(id) > 0) {
      swarm.FailStep(id, ErrorCode::kInvalidData, kProblem);
      ++asked;
      id = 0;
    }
  EXPECT_EQ(asked, 2);
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  EXPECT_THAT(swarm.Ends(request)[0].error->message(), HasSubstr("Layer 3"));
  // It was the request: those who said so may be used.
  swarm.Advance(Seconds(1));
  for (WorkerId id = 1; id <= 3; ++id) swarm.AnswerSteps(id);
  EXPECT_EQ(swarm.Tokens(swarm.Submit({7}, 2)), Counting(8, 2));
}

TEST(Blame, WhereNobodyElseCouldHoldTheModelTheRequestFailsAtOnce) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId back = swarm.picture().stages[1].worker;
  swarm.worker(back).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 5), 4);
  swarm.ClearLog();
  swarm.FailStep(back, ErrorCode::kInvalidData, kProblem);
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  EXPECT_THAT(swarm.bindings(back), SizeIs(1)) << "it need not load anything again";
  swarm.AnswerSteps(back);
  EXPECT_EQ(swarm.Tokens(swarm.Submit({7}, 2)), Counting(8, 2));
}

// The other one offers enough for the weights, and not for what else a model takes.
TEST(Blame, WhereNoPlanIsFoundWithoutTheDeviceTheRequestFails) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  TestWorker small;
  small.memory_bytes = 6 * kTestLayerBytes;
  swarm.Join(small);
  swarm.Advance(Seconds(1));
  const RequestId request = swarm.Submit(Counting(100, 5), 4);
  swarm.FailStep(1, ErrorCode::kInvalidData, kProblem);
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  EXPECT_THAT(swarm.Ends(request)[0].error->message(), HasSubstr("Layer 3"));
  swarm.AnswerSteps(1);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(swarm.Submit({7}, 2)), Counting(8, 2)) << "it is used again";
}

// Of one make, say, with the same broken driver.
TEST(Blame, DevicesThatAreBrokenAlikeFailOneRequestAtMost) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  swarm.Join(Silent());
  swarm.Join(Slow());
  swarm.Advance(Seconds(1));
  std::vector<RequestId> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(swarm.Submit(Counting(100, 5), 4));
    FailAll(swarm, {1, 2});
    swarm.Advance(Milliseconds(500));
    FailAll(swarm, {1, 2});
  }
  EXPECT_LE(swarm.picture().failed_requests, 1u);
  for (size_t i = 1; i < requests.size(); ++i)
    EXPECT_EQ(swarm.Tokens(requests[i]), Counting(105, 4)) << "request " << i;
}

TEST(Blame, WhoSendsRowsThatAreNotFiniteIsOutAndNotWhoIsBehindIt) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId front = swarm.picture().stages[0].worker;
  swarm.worker(front).answer_steps = false;
  swarm.Join(Slow());
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.picture().stages[0].worker, front);
  const RequestId request = swarm.Submit(Counting(100, 5), 4);
  ASSERT_GT(swarm.unanswered_steps(front), 0u);
  swarm.ClearLog();
  swarm.Feed(WorkerData{front, NotFinite(swarm, front)});
  EXPECT_EQ(swarm.Tokens(request), Counting(105, 4));
  for (const TestRun& run : swarm.runs()) EXPECT_NE(run.worker, front);
  EXPECT_THAT(swarm.CloseReasons(front), IsEmpty());
  for (const WorkerSnapshot& worker : swarm.picture().workers)
    EXPECT_EQ(worker.problem,
              worker.id == front ? "It gave 1 values behind layer 2 that are not finite." : "")
        << worker.id;
  EXPECT_NE(swarm.picture().stages[0].worker, front);
}

}  // namespace
}  // namespace weft::swarm
