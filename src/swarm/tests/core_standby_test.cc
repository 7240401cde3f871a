// Workers that stand by: loaded beside the plan, fed while nobody waits, and at once in the place
// of one that goes or is late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Too slow to be planned with where others serve.
TestWorker Slow(uint32_t layers) {
  TestWorker worker;
  worker.memory_bytes = layers * kTestLayerBytes + 500'000;
  worker.run_us = 5000;
  return worker;
}

// Three stages of two layers and one worker that stands by with as many of them as it has room for.
// Plans are held from then on, so that whatever happens next happens without one.
struct StandingBy {
  explicit StandingBy(uint32_t layers, const CoreOptions& options = TestOptions())
      : StandingBy(Slow(layers), options) {}
  explicit StandingBy(const TestWorker& worker, const CoreOptions& options = TestOptions())
      : swarm(options) {
    swarm.BringUp(3, Third());
    spare = swarm.Join(worker);
    swarm.Advance(Seconds(1));
    for (const StageSnapshot& stage : swarm.picture().stages) workers.push_back(stage.worker);
    EXPECT_THAT(workers, Each(testing::Ne(spare)));
    swarm.hold_plans = true;
    swarm.ClearLog();
  }
  // Which stage of the plan the spare worker stands by with.
  size_t Covered() const {
    size_t stage = 0;
    while (LayerOf(stage) != swarm.bindings(spare).at(0).layers.first) ++stage;
    return stage;
  }
  uint32_t LayerOf(size_t stage) const { return swarm.picture().stages.at(stage).first_layer; }
  // 24 tokens are known, the last stage computes the row of the last one.
  RequestId Begin() {
    swarm.worker(workers[2]).answer_steps = false;
    const RequestId request = swarm.Submit(Counting(100, 20), 10);
    while (swarm.Tokens(request).size() < 4) swarm.AnswerStep(workers[2]);
    return request;
  }
  void Lose(size_t stage) {
    swarm.ClearLog();
    swarm.Lose(workers[stage]);
    for (size_t i = 0; i < workers.size(); ++i)
      if (i != stage) swarm.AnswerSteps(workers[i]);
  }
  TestSwarm swarm;
  WorkerId spare;
  std::vector<WorkerId> workers;
};

TEST(Standby, HoldsStagesOfThePlanLoaded) {
  StandingBy one(2);
  ASSERT_THAT(one.swarm.bindings(one.spare), SizeIs(1));
  EXPECT_TRUE(one.swarm.bindings(one.spare)[0].standby);
  EXPECT_TRUE(one.swarm.bindings(one.spare)[0].loaded);
  EXPECT_EQ(one.swarm.picture().workers[3].state, WorkerState::kStandby);
  EXPECT_GE(one.swarm.picture().workers[3].used_bytes, 2 * kTestLayerBytes);
  const StandbySnapshot shown = one.swarm.picture().standbys.at(0);
  EXPECT_EQ(shown.worker, one.spare);
  EXPECT_TRUE(shown.loaded);
  StandingBy all(6);
  std::vector<LayerSpan> held;
  for (const TestBinding& binding : all.swarm.bindings(all.spare)) held.push_back(binding.layers);
  EXPECT_THAT(held,
              testing::UnorderedElementsAre(LayerSpan{0, 2}, LayerSpan{2, 4}, LayerSpan{4, 6}));
}

// It is behind by the rows that were not worth a frame of their own.
TEST(Standby, TakesOverAtOnceAndLacksOnlyTheLastRows) {
  const char* const before = "[0,16) none";
  const char* const expected[] = {"[16,24) none [24,29) hidden", "[16,24) none [24,29) hidden",
                                  "[16,29) argmax"};
  for (size_t lost = 0; lost < 3; ++lost) {
    StandingBy standing(6);
    TestSwarm& swarm = standing.swarm;
    const RequestId request = standing.Begin();
    std::string fed;
    for (const TestRun& run : swarm.runs())
      if (run.worker == standing.spare && run.layers.first == standing.LayerOf(lost))
        fed += std::to_string(run.run.first_position) + "+" + std::to_string(run.run.count) + " ";
    EXPECT_EQ(fed, "0+8 8+8 ") << before;
    EXPECT_EQ(swarm.picture().standbys.at(0).lag_rows, 7u);
    const Instant now = swarm.now();
    standing.Lose(lost);
    EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
    EXPECT_EQ(swarm.picture().stages[lost].worker, standing.spare);
    EXPECT_EQ(swarm.Sent(standing.spare), "") << "there is nothing to say";
    EXPECT_EQ(swarm.now(), now);
    EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
    EXPECT_EQ(swarm.Rows(standing.spare), expected[lost]);
    for (size_t i = 0; i < 3; ++i) {
      if (i == lost) continue;
      EXPECT_EQ(swarm.Sent(standing.workers[i]), "");
      EXPECT_EQ(swarm.Rows(standing.workers[i]), i == 2 ? "[24,29) argmax" : "[24,29) hidden");
    }
  }
}

TEST(Standby, MayRunTwoStagesInTheEnd) {
  StandingBy standing(6);
  TestSwarm& swarm = standing.swarm;
  const RequestId request = standing.Begin();
  standing.Lose(0);
  swarm.Lose(standing.workers[1]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  const RequestId next = swarm.Submit(Counting(500, 9), 3);
  swarm.Lose(standing.workers[2]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  for (const StageSnapshot& stage : swarm.picture().stages) EXPECT_EQ(stage.worker, standing.spare);
  EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
  EXPECT_EQ(swarm.Tokens(next), Counting(509, 3));
  EXPECT_EQ(swarm.Tokens(swarm.Submit(Counting(100, 40), 2)), Counting(140, 2));
}

TEST(Standby, IsFedOneFrameAtATimeAndHoldsUpNobody) {
  StandingBy standing(2);
  TestSwarm& swarm = standing.swarm;
  swarm.worker(standing.spare).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 40), 10);
  EXPECT_EQ(swarm.Tokens(request), Counting(140, 10));
  EXPECT_EQ(swarm.unanswered_steps(standing.spare), 1u);
  EXPECT_EQ(swarm.Rows(standing.spare), "[0,8) none");
  swarm.AnswerSteps(standing.spare);
  // 49 rows were computed; one of the last seven alone is no reason for a frame.
  EXPECT_EQ(swarm.Rows(standing.spare), "[0,48) none");
}

// Nothing of the prompt has passed the last stage: whoever stands by with a stage has its rows all
// the same, and does not begin with the first one when it takes over.
TEST(Standby, FollowsAPromptThatIsBeingRead) {
  StandingBy standing(6);
  TestSwarm& swarm = standing.swarm;
  swarm.worker(standing.workers[2]).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 40), 3);
  EXPECT_EQ(swarm.Tokens(request), Counting(140, 0));
  for (size_t stage = 0; stage < 3; ++stage) {
    const LayerSpan layers{standing.LayerOf(stage), standing.LayerOf(stage) + 2};
    EXPECT_EQ(swarm.Held(standing.spare, layers), 32u) << stage;
  }
  swarm.ClearLog();
  standing.Lose(2);
  EXPECT_EQ(swarm.Tokens(request), Counting(140, 3));
  EXPECT_EQ(swarm.Rows(standing.spare), "[32,42) argmax");
}

TEST(Standby, FollowsAConversationThatGoesBack) {
  StandingBy standing(2);
  TestSwarm& swarm = standing.swarm;
  swarm.Submit(Counting(100, 40), 10);
  ASSERT_EQ(swarm.Rows(standing.spare), "[0,48) none");
  swarm.ClearLog();
  // The same beginning and another end.
  std::vector<int32_t> other = Counting(100, 43);
  for (int32_t id = 700; id < 710; ++id) other.push_back(id);
  const RequestId request = swarm.Submit(other, 4);
  ASSERT_EQ(swarm.Ends(request)[0].cached_prompt_tokens, 43u);
  EXPECT_EQ(swarm.Rows(standing.spare), "[43,51) none");
  standing.Lose(standing.Covered());
  EXPECT_EQ(swarm.Held(standing.spare, swarm.bindings(standing.spare)[0].layers), 56u);
}

TEST(Standby, IsNotFedWhatNobodyKeeps) {
  CoreOptions options = TestOptions();
  options.history_bytes = 0;
  StandingBy standing(6, options);
  TestSwarm& swarm = standing.swarm;
  const RequestId request = standing.Begin();
  std::set<uint32_t> fed;
  for (const TestRun& run : swarm.runs())
    if (run.worker == standing.spare) fed.insert(run.layers.first);
  EXPECT_THAT(fed, ElementsAre(0)) << "tokens are always there";
  standing.Lose(1);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Rows(standing.workers[0]), "[0,29) hidden");
  EXPECT_EQ(swarm.Rows(standing.workers[2]), "[24,29) argmax");
  EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
}

TEST(Standby, AnOnnxWorkerIsNotFed) {
  TestWorker onnx = Slow(6);
  onnx.kind = "web";
  onnx.engine = "ort-wasm";
  onnx.needs_onnx = true;
  StandingBy standing(onnx);
  TestSwarm& swarm = standing.swarm;
  ASSERT_THAT(swarm.bindings(standing.spare), SizeIs(3));
  const RequestId request = standing.Begin();
  EXPECT_EQ(swarm.Rows(standing.spare), "");
  standing.Lose(1);
  EXPECT_EQ(swarm.Rows(standing.spare), "[0,24) none [24,29) hidden");
  EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
}

// A step that a standby cannot compute is its own affair.
TEST(Standby, AFailureOfItsStepsIsNotTheRequests) {
  StandingBy standing(2);
  TestSwarm& swarm = standing.swarm;
  swarm.worker(standing.spare).answer_steps = false;
  const RequestId request = standing.Begin();
  ASSERT_EQ(swarm.unanswered_steps(standing.spare), 1u);
  swarm.FailStep(standing.spare, ErrorCode::kInvalidData, "Layer 3 gave 7 values, none finite.");
  EXPECT_THAT(swarm.Ends(request), IsEmpty());
  EXPECT_EQ(swarm.unanswered_steps(standing.spare), 0u) << "it is not asked again at once";
  swarm.AnswerSteps(standing.workers[2]);
  EXPECT_EQ(swarm.Tokens(request), Counting(120, 10));
}

// Whoever took over with it would lose its first answers.
TEST(Standby, OneWhoseNumbersFailIsOut) {
  StandingBy standing(2);
  TestSwarm& swarm = standing.swarm;
  swarm.worker(standing.spare).answer_steps = false;
  const size_t covered = standing.Covered();
  const RequestId request = standing.Begin();
  ASSERT_EQ(swarm.unanswered_steps(standing.spare), 1u);
  swarm.FailStep(standing.spare, ErrorCode::kInvalidData, "Layer 3 gave 7 values, none finite.");
  EXPECT_THAT(swarm.bindings(standing.spare), IsEmpty());
  EXPECT_THAT(swarm.picture().workers[3].problem, HasSubstr("none finite"));
  swarm.Lose(standing.workers[covered]);
  for (const StageSnapshot& stage : swarm.picture().stages)
    EXPECT_NE(stage.worker, standing.spare) << "it took over";
  EXPECT_THAT(swarm.Ends(request), IsEmpty());
}

// It may be the request: then the device that serves says the same, and neither is out.
TEST(Standby, WhatItSaysOfARequestIsAnOpinion) {
  StandingBy standing(6);
  TestSwarm& swarm = standing.swarm;
  swarm.worker(standing.spare).answer_steps = false;
  swarm.worker(standing.workers[1]).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 40), 3);
  const auto fed_last = [&] {
    LayerSpan layers;
    for (const TestRun& run : swarm.runs())
      if (run.worker == standing.spare) layers = run.layers;
    return layers;
  };
  while (fed_last().first != 2 && swarm.unanswered_steps(standing.spare) > 0)
    swarm.AnswerStep(standing.spare);
  ASSERT_EQ(fed_last(), (LayerSpan{2, 4}));
  ASSERT_EQ(swarm.unanswered_steps(standing.spare), 1u);
  swarm.FailStep(standing.spare, ErrorCode::kInvalidData, "Layer 3 gave 7 values, none finite.");
  swarm.FailStep(standing.workers[1], ErrorCode::kInvalidData, "Layer 3 gave 7 values.");
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(swarm.picture().stages[i].worker, standing.workers[i]);
}

// Two failures of three are known of it. It answers forty frames that nobody waits for, and then
// fails as one that serves.
TEST(Standby, BeingFedDoesNotMakeUpForWrongAnswers) {
  TestSwarm swarm;
  TestWorker slow = Silent();
  slow.run_us = 5000;
  slow.compute_us = 30'000;
  slow.takes_time = true;
  swarm.BringUp(1, slow);
  const RequestId first = swarm.Submit({7}, 2);
  for (int i = 0; i < 2; ++i) swarm.FailStep(1, ErrorCode::kUnavailable, "It hiccuped.");
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  ASSERT_EQ(swarm.Tokens(first), Counting(8, 2));
  swarm.AnswerSteps(1);
  const WorkerId serves = swarm.Join();
  swarm.Advance(Seconds(60));
  ASSERT_EQ(swarm.picture().stages[0].worker, serves);
  ASSERT_THAT(swarm.bindings(1), SizeIs(1));
  swarm.ClearLog();
  for (int i = 0; i < 8; ++i) swarm.Submit(Counting(100 * i + 50, 40), 6);
  ASSERT_GE(swarm.runs().size(), 40u);
  const auto fed = std::count_if(swarm.runs().begin(), swarm.runs().end(),
                                 [](const TestRun& run) { return run.worker == 1; });
  ASSERT_GE(fed, 20);
  swarm.Lose(serves);
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  swarm.worker(1).answer_steps = false;
  swarm.Submit({9}, 2);
  swarm.FailStep(1, ErrorCode::kUnavailable, "It hiccuped.");
  EXPECT_NE(swarm.picture().state, SwarmState::kUp) << "it is not out";
}

TEST(Standby, OneThatCannotLoadIsLeftAlone) {
  TestWorker worker = Slow(2);
  worker.answer_prepare = false;
  StandingBy standing(worker);
  TestSwarm& swarm = standing.swarm;
  ASSERT_THAT(swarm.bindings(standing.spare), SizeIs(1));
  const BindingId asked = swarm.bindings(standing.spare)[0].id;
  swarm.Control(standing.spare, swarm.Failed(asked, ErrorCode::kIo));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.CloseReasons(standing.spare), IsEmpty());
  EXPECT_EQ(swarm.Sent(standing.spare), "release");
  const RequestId request = standing.Begin();
  swarm.AnswerSteps(standing.workers[2]);
  EXPECT_EQ(swarm.Tokens(request), Counting(120, 10));
}

// It stands by with one stage and another one is lost: its two layers go for those that are
// missing.
TEST(Standby, MakesRoomForWhatIsMissing) {
  StandingBy standing(2);
  TestSwarm& swarm = standing.swarm;
  const RequestId request = standing.Begin();
  const size_t lost = standing.Covered() == 1 ? 2 : 1;
  standing.Lose(lost);
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  const LayerSpan hole{standing.LayerOf(lost), standing.LayerOf(lost) + 2};
  for (int i = 0; i < 3 && (swarm.held_plans.empty() || !swarm.held_plans.back().repair); ++i)
    swarm.AnswerNoPlan();
  ASSERT_TRUE(swarm.held_plans.back().repair);
  EXPECT_EQ(swarm.held_plans.back().repair->first_layer, static_cast<int>(hole.first));
  EXPECT_EQ(swarm.held_plans.back().repair->replay_rows, 23u) << "what every stage has computed";
  swarm.AnswerPlan({{standing.spare, hole}});
  EXPECT_EQ(swarm.Sent(standing.spare), "release prepare_stage");
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
  // What it was still fed as a standby comes first.
  EXPECT_THAT(swarm.Rows(standing.spare),
              EndsWith(lost == 2 ? "[0,24) none [24,29) argmax" : "[0,24) none [24,29) hidden"));
}

// ---- spares that are smaller than every stage ----

// Two stages of three layers, and spares that hold two or one.
struct SmallSpares {
  explicit SmallSpares(const CoreOptions& options = TestOptions()) : swarm(options) {
    swarm.BringUp(2, Half());
    for (const StageSnapshot& stage : swarm.picture().stages) workers.push_back(stage.worker);
    for (const uint32_t layers : {2u, 1u}) {
      spares.push_back(swarm.Join(Slow(layers)));
      swarm.Advance(Seconds(1));
    }
    swarm.hold_plans = true;
  }
  LayerSpan Of(size_t spare) const { return swarm.bindings(spares[spare]).at(0).layers; }
  TestSwarm swarm;
  std::vector<WorkerId> workers, spares;
};

TEST(Standby, SparesThatAreSmallerThanEveryStageHoldOneTogether) {
  SmallSpares small;
  for (const WorkerId spare : small.spares) ASSERT_THAT(small.swarm.bindings(spare), SizeIs(1));
  EXPECT_THAT((std::vector{small.Of(0), small.Of(1)}),
              testing::AnyOf(ElementsAre(LayerSpan{0, 2}, LayerSpan{2, 3}),
                             ElementsAre(LayerSpan{3, 5}, LayerSpan{5, 6})));
  // What they hold stays while it is good.
  small.swarm.ClearLog();
  small.swarm.hold_plans = false;
  small.swarm.Join(Slow(1));
  small.swarm.Advance(Seconds(20));
  for (const WorkerId spare : small.spares) EXPECT_EQ(small.swarm.Sent(spare), "");
}

TEST(Standby, ASmallSpareHoldsAllThatIsKeptTogetherOrNoneOfIt) {
  CoreOptions options = TestOptions();
  for (const size_t layer : {2, 5}) options.model.layers[layer].with_previous = true;
  SmallSpares small(options);
  EXPECT_THAT(small.Of(0),
              testing::AnyOf(LayerSpan{1, 3}, LayerSpan{4, 6}, LayerSpan{0, 1}, LayerSpan{3, 4}));
  EXPECT_THAT(small.Of(1), testing::AnyOf(LayerSpan{0, 1}, LayerSpan{3, 4}));
  for (const StageSnapshot& stage : small.swarm.picture().stages) {
    EXPECT_FALSE(options.model.layers[stage.first_layer].with_previous);
  }
}

TEST(Standby, SmallSparesTakeAStageOverTogether) {
  SmallSpares small;
  TestSwarm& swarm = small.swarm;
  const size_t covered = small.Of(0).first == 0 ? 0 : 1;
  swarm.worker(small.workers[1]).answer_steps = false;
  const RequestId request = swarm.Submit(Counting(100, 20), 10);
  while (swarm.Tokens(request).size() < 4) swarm.AnswerStep(small.workers[1]);
  swarm.ClearLog();
  swarm.Lose(small.workers[covered]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp) << "without a plan, and without loading";
  swarm.AnswerSteps(small.workers[1 - covered]);
  EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
  for (const WorkerId spare : small.spares) EXPECT_EQ(swarm.Sent(spare), "");
}

// ---- one that is late ----

// The stage that the spare worker stands by with has computed some steps in no time, and then one
// hangs.
struct Late : StandingBy {
  Late() : StandingBy(2) {
    late = workers[Covered()];
    swarm.Submit(Counting(500, 3), 6);
    for (const WorkerId id : workers) swarm.worker(id).answer_steps = true;
    swarm.worker(late).answer_steps = false;
    swarm.ClearLog();
    request = swarm.Submit({7}, 5);
  }
  WorkerId late;
  RequestId request;
};

TEST(Standby, IsAskedAfterAStepThatIsLate) {
  Late scene;
  TestSwarm& swarm = scene.swarm;
  ASSERT_EQ(swarm.unanswered_steps(scene.late), 1u);
  swarm.Advance(Milliseconds(20));
  EXPECT_EQ(swarm.Rows(scene.spare, 2), "") << "not every hiccup is a loss";
  swarm.Advance(Milliseconds(20));
  EXPECT_EQ(swarm.Tokens(scene.request), Counting(8, 5));
  EXPECT_THAT(swarm.CloseReasons(scene.late), IsEmpty());
  EXPECT_EQ(swarm.Sent(scene.late), "");
  // Its answer comes at last: it is no offence, and changes nothing.
  swarm.AnswerSteps(scene.late);
  EXPECT_THAT(swarm.CloseReasons(scene.late), IsEmpty());
  EXPECT_EQ(swarm.Tokens(scene.request), Counting(8, 5));
  EXPECT_THAT(swarm.Ends(scene.request), SizeIs(1));
}

// No step of it was timed yet, so that none is late before its deadline of half a minute. It owes
// an answer, says nothing, and does not answer a ping: 100 ms, and 150.
TEST(Standby, TakesOverFromASilentOneWhoseStepIsNotLate) {
  StandingBy standing(2);
  TestSwarm& swarm = standing.swarm;
  swarm.Advance(Seconds(2));
  const WorkerId silent = standing.workers[standing.Covered()];
  swarm.worker(silent).answer_steps = swarm.worker(silent).answer_pings = false;
  const RequestId request = swarm.Submit({7}, 5);
  swarm.Advance(Milliseconds(240));
  EXPECT_THAT(swarm.CloseReasons(silent), IsEmpty());
  swarm.Advance(Milliseconds(20));
  EXPECT_THAT(swarm.CloseReasons(silent), ElementsAre(HasSubstr("Nothing was heard from it for")));
  EXPECT_EQ(swarm.Tokens(request), Counting(8, 5));
}

TEST(Standby, OneThatIsSlowAndAnswersPingsIsWaitedFor) {
  StandingBy standing(2);
  TestSwarm& swarm = standing.swarm;
  swarm.Advance(Seconds(2));
  const WorkerId slow = standing.workers[standing.Covered()];
  swarm.worker(slow).answer_steps = false;
  const RequestId request = swarm.Submit({7}, 5);
  swarm.Advance(Seconds(3));
  EXPECT_THAT(swarm.CloseReasons(slow), IsEmpty());
  swarm.AnswerSteps(slow);
  EXPECT_EQ(swarm.Tokens(request), Counting(8, 5));
}

// What it is being fed is what it needs in any case.
TEST(Standby, OneThatIsBeingFedIsAskedToo) {
  Late scene;
  TestSwarm& swarm = scene.swarm;
  swarm.worker(scene.spare).answer_steps = false;
  swarm.worker(scene.late).answer_steps = true;
  swarm.AnswerSteps(scene.late);
  const RequestId request = swarm.Submit(Counting(600, 30), 3);
  ASSERT_EQ(swarm.unanswered_steps(scene.spare), 1u);
  EXPECT_EQ(swarm.Tokens(request), Counting(630, 3));
  swarm.worker(scene.late).answer_steps = false;
  const RequestId next = swarm.Submit({7}, 5);
  ASSERT_EQ(swarm.unanswered_steps(scene.spare), 1u);
  swarm.Advance(Milliseconds(80));
  EXPECT_EQ(swarm.unanswered_steps(scene.spare), 2u) << "behind what it is fed";
  swarm.AnswerSteps(scene.spare);
  EXPECT_EQ(swarm.Tokens(next), Counting(8, 5));
}

TEST(Standby, TheAnswerThatComesFirstCounts) {
  Late scene;
  TestSwarm& swarm = scene.swarm;
  swarm.worker(scene.spare).answer_steps = false;
  swarm.Advance(Milliseconds(40));
  ASSERT_GE(swarm.unanswered_steps(scene.spare), 1u);
  swarm.AnswerSteps(scene.late);
  EXPECT_THAT(swarm.Tokens(scene.request), ElementsAre(8));
  swarm.AnswerSteps(scene.spare);
  EXPECT_EQ(swarm.Tokens(scene.request), Counting(8, 5));
  EXPECT_THAT(swarm.Ends(scene.request), SizeIs(1));
}

// Two hold the whole model, and one of them computes it.
struct TwoWhole {
  TwoWhole() {
    swarm.BringUp(1, TestWorker());
    swarm.BringUp(2, TestWorker());
    swarm.Advance(Seconds(2));
    for (int i = 0; i < 5; ++i) swarm.Submit(Counting(100 * i + 9, 3), 6);
    swarm.worker(1).answer_steps = swarm.worker(2).answer_steps = false;
    request = swarm.Submit({7}, 8);
    late = WorkerId(swarm.unanswered_steps(1) > 0 ? 1u : 2u);
    other = WorkerId(3 - late.value());
  }
  TestSwarm swarm{TestOptions()};
  RequestId request;
  WorkerId late = 0, other = 0;
};

TEST(Standby, TheAnswerOfTheLastStageThatComesFirstCounts) {
  TwoWhole scene;
  TestSwarm& swarm = scene.swarm;
  ASSERT_EQ(swarm.unanswered_steps(scene.late), 1u);
  swarm.Advance(Milliseconds(40));
  ASSERT_GE(swarm.unanswered_steps(scene.other), 1u);
  swarm.AnswerSteps(scene.late);
  EXPECT_THAT(swarm.Tokens(scene.request), ElementsAre(8));
}

}  // namespace
}  // namespace weft::swarm
