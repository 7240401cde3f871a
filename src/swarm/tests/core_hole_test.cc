// Holes: what a loss costs. The stages that are left keep their layers and what they computed, the
// rows in front of the hole are kept, and whoever fills it is sent those that it lacks, once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Three stages of two layers. Those that a test holds back answer nothing until it says so.
struct ThreeStages {
  explicit ThreeStages(const CoreOptions& options = TestOptions()) : swarm(options) {
    swarm.BringUp(3, Third());
    for (const StageSnapshot& stage : swarm.picture().stages) workers.push_back(stage.worker);
  }
  void HoldBack() {
    for (const WorkerId id : workers) swarm.worker(id).answer_steps = false;
  }
  // Loses a stage; the others finish what they have.
  void Lose(size_t stage) {
    swarm.ClearLog();
    swarm.Lose(workers[stage]);
    for (size_t i = 0; i < workers.size(); ++i)
      if (i != stage) swarm.AnswerSteps(workers[i]);
  }
  // A worker comes and is planned with.
  WorkerId Join(TestWorker worker = Third()) {
    const WorkerId id = swarm.Join(std::move(worker));
    swarm.Advance(Milliseconds(200));
    return id;
  }
  // Of each stage: its worker's layers.
  std::vector<std::pair<WorkerId, LayerSpan>> Plan() const {
    std::vector<std::pair<WorkerId, LayerSpan>> plan;
    for (const StageSnapshot& stage : swarm.picture().stages)
      plan.emplace_back(stage.worker, LayerSpan{stage.first_layer, stage.end_layer});
    return plan;
  }
  TestSwarm swarm;
  std::vector<WorkerId> workers;
};

// With a request whose prompt has 20 tokens and of which four were answered: 24 tokens are known,
// 23 rows have passed the last stage, and it computes the row of the last one.
struct MiddleOfAnswer : ThreeStages {
  explicit MiddleOfAnswer(const CoreOptions& options = TestOptions()) : ThreeStages(options) {
    swarm.worker(workers[2]).answer_steps = false;
    request = swarm.Submit(Counting(100, 20), 10);
    while (swarm.Tokens(request).size() < 4) swarm.AnswerStep(workers[2]);
  }
  RequestId request;
};

CoreOptions WithHistory(uint64_t bytes) {
  CoreOptions options = TestOptions();
  options.history_bytes = bytes;
  return options;
}

constexpr uint64_t kRowBytes = 8;  // four columns of f16

// Control messages that change what a worker holds; what is fetched ahead or timed aside.
std::string Orders(const TestSwarm& swarm, WorkerId worker) {
  std::string orders;
  for (const Action& action : swarm.log()) {
    const auto* control = std::get_if<SendControl>(&action);
    if (!control || control->worker != worker) continue;
    if (control->message.has_prepare_stage()) orders += "prepare ";
    if (control->message.has_retire()) orders += "retire ";
    if (control->message.has_release()) orders += "release ";
    if (control->message.has_invalidate_sessions()) orders += "invalidate ";
  }
  return orders;
}

TEST(Hole, OnlyWhatWasLostIsComputedAgain) {
  // What the replacement gets: the rows that its stage had, once and without output, then those
  // that the answer waits for.
  const char* const expected[] = {"[0,24) none [24,29) hidden", "[0,24) none [24,29) hidden",
                                  "[0,16) none [16,29) argmax"};
  for (size_t lost = 0; lost < 3; ++lost) {
    MiddleOfAnswer middle;
    TestSwarm& swarm = middle.swarm;
    const RequestId request = middle.request;
    const std::vector<int32_t> before = swarm.Tokens(request);
    middle.Lose(lost);
    EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
    EXPECT_THAT(swarm.picture().message, HasSubstr("A device has gone"));
    EXPECT_EQ(swarm.picture().active_requests, 1u);
    const WorkerId late = middle.Join();
    EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
    EXPECT_EQ(swarm.Rows(late), expected[lost]) << lost;
    EXPECT_EQ(Orders(swarm, late), "prepare ");
    for (size_t i = 0; i < 3; ++i) {
      if (i == lost) continue;
      // The row of position 23 had passed both before the loss, or passes the last stage after it.
      EXPECT_EQ(swarm.Rows(middle.workers[i]), i == 2 ? "[24,29) argmax" : "[24,29) hidden")
          << lost << " " << i;
      EXPECT_EQ(Orders(swarm, middle.workers[i]), "") << lost << " " << i;
      EXPECT_THAT(swarm.CloseReasons(middle.workers[i]), IsEmpty());
    }
    EXPECT_EQ(before, Counting(120, 4));
    EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
    ASSERT_THAT(swarm.Ends(request), SizeIs(1));
    EXPECT_EQ(swarm.Ends(request)[0].reason, FinishReason::kLength);
  }
}

// The same with the worst moment for what is under way: nobody has answered yet.
TEST(Hole, AnswersThatAreOnTheirWayStillCount) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  swarm.ClearLog();
  swarm.Lose(middle.workers[0]);
  const WorkerId late = middle.Join();
  EXPECT_EQ(swarm.Rows(late), "[0,24) none") << "no row is known that anybody waits for";
  EXPECT_EQ(swarm.Rows(middle.workers[1]), "");
  swarm.AnswerSteps(middle.workers[2]);
  EXPECT_EQ(swarm.Rows(late), "[0,24) none [24,29) hidden");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
}

TEST(Hole, WithoutHistoryTheNearestEarlierStageComputesAgain) {
  {
    MiddleOfAnswer middle(WithHistory(0));
    middle.Lose(0);
    const WorkerId late = middle.Join();
    EXPECT_EQ(middle.swarm.Rows(late), "[0,24) none [24,29) hidden") << "tokens are always there";
    EXPECT_EQ(middle.swarm.Rows(middle.workers[1]), "[24,29) hidden");
    EXPECT_EQ(middle.swarm.Rows(middle.workers[2]), "[24,29) argmax");
    EXPECT_EQ(middle.swarm.Tokens(middle.request), Counting(124, 6));
  }
  {
    MiddleOfAnswer middle(WithHistory(0));
    middle.Lose(1);
    // The row behind the last token waits in front of the hole.
    ASSERT_EQ(middle.swarm.Rows(middle.workers[0]), "[24,25) hidden");
    const WorkerId late = middle.Join();
    EXPECT_EQ(middle.swarm.Rows(middle.workers[0]), "[24,25) hidden [0,29) hidden");
    EXPECT_EQ(middle.swarm.Rows(late), "[0,24) none [24,29) hidden");
    EXPECT_EQ(middle.swarm.Rows(middle.workers[2]), "[24,29) argmax");
    EXPECT_EQ(middle.swarm.Tokens(middle.request), Counting(124, 6));
  }
  {
    MiddleOfAnswer middle(WithHistory(0));
    middle.Lose(2);
    const WorkerId late = middle.Join();
    EXPECT_EQ(middle.swarm.Rows(middle.workers[0]), "[0,29) hidden");
    EXPECT_EQ(middle.swarm.Rows(middle.workers[1]), "[0,29) hidden");
    EXPECT_EQ(middle.swarm.Rows(late), "[0,16) none [16,29) argmax");
    EXPECT_EQ(middle.swarm.Tokens(middle.request), Counting(124, 6));
  }
}

// Two stages in a row and no rows at either cut: the second one must not be sent later rows while
// the first one still makes the earlier ones.
TEST(Hole, WithoutHistoryNeighboursAreFilledOneBehindTheOther) {
  MiddleOfAnswer middle(WithHistory(0));
  TestSwarm& swarm = middle.swarm;
  middle.Lose(1);
  swarm.Lose(middle.workers[2]);
  swarm.Join(Third());
  const WorkerId late = middle.Join();
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  const auto plan = middle.Plan();
  EXPECT_EQ(plan[0].first, middle.workers[0]);
  EXPECT_EQ(swarm.Rows(plan[0].first), "[24,25) hidden [0,29) hidden");
  EXPECT_EQ(swarm.Rows(plan[1].first), "[0,29) hidden");
  EXPECT_EQ(swarm.Rows(plan[2].first), "[0,24) none [24,29) argmax");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
  EXPECT_EQ(Orders(swarm, late), "prepare ");
}

// Of an idle conversation the rows were dropped, of the one that somebody waits for they were not.
TEST(Hole, OnlyConversationsWhoseRowsWereDroppedAreComputedAgain) {
  for (const bool enough : {false, true}) {
    // Two conversations of 24 rows at two cuts.
    ThreeStages three(WithHistory((enough ? 4 : 2) * 25 * kRowBytes));
    TestSwarm& swarm = three.swarm;
    swarm.Submit(Counting(500, 20), 5);
    swarm.worker(three.workers[2]).answer_steps = false;
    const RequestId request = swarm.Submit(Counting(100, 20), 10);
    while (swarm.Tokens(request).size() < 4) swarm.AnswerStep(three.workers[2]);
    three.Lose(1);
    const WorkerId late = three.Join();
    EXPECT_EQ(swarm.Rows(three.workers[0], 1), enough ? "" : "[0,24) hidden");
    EXPECT_EQ(swarm.Rows(three.workers[0], 2), "[24,29) hidden");
    EXPECT_EQ(swarm.Rows(three.workers[2], 1), "");
    EXPECT_EQ(swarm.Rows(late, 1), "[0,24) none");
    EXPECT_EQ(swarm.Rows(late, 2), "[0,24) none [24,29) hidden");
    // Who is waited for comes first.
    std::vector<uint32_t> order;
    for (const TestRun& run : swarm.runs())
      if (run.worker == late && run.run.count > 1) order.push_back(run.run.session);
    EXPECT_THAT(order, ElementsAre(2, 2, 2, 1, 1, 1));
    EXPECT_EQ(swarm.Tokens(request), Counting(124, 6));
  }
}

// ---- prompts ----

// 40 tokens of prompt, of which the first 8 have passed two stages and the first 16 one.
struct MiddleOfPrompt : ThreeStages {
  MiddleOfPrompt() {
    HoldBack();
    request = swarm.Submit(Counting(100, 40), 3);
    swarm.AnswerStep(workers[0]);
    swarm.AnswerStep(workers[0]);
    swarm.AnswerStep(workers[1]);
  }
  RequestId request;
};

TEST(Hole, StagesInFrontOfItGoOnWithThePrompt) {
  MiddleOfPrompt middle;
  TestSwarm& swarm = middle.swarm;
  EXPECT_EQ(swarm.Rows(middle.workers[0]), "[0,32) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[2]), "[0,8) none");
  middle.Lose(2);
  EXPECT_EQ(swarm.Rows(middle.workers[0]), "[32,40) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[1]), "[16,40) hidden");
  const WorkerId late = middle.Join();
  EXPECT_EQ(swarm.Rows(late), "[0,32) none [32,42) argmax");
  EXPECT_EQ(swarm.Rows(middle.workers[0]), "[32,42) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[1]), "[16,42) hidden");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(140, 3));
}

TEST(Hole, InTheMiddleOfAPromptStopsOnlyWhatIsBehindIt) {
  MiddleOfPrompt middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(1);
  EXPECT_EQ(swarm.Rows(middle.workers[0]), "[32,40) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[2]), "");
  const WorkerId late = middle.Join();
  // The last stage has had the first eight.
  EXPECT_EQ(swarm.Rows(late), "[0,8) none [8,42) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[0]), "[32,42) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[2]), "[8,32) none [32,42) argmax");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(140, 3));
}

TEST(Hole, AtTheFrontOfAPromptLeavesTheOthersWithWhatTheyHave) {
  MiddleOfPrompt middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(0);
  EXPECT_EQ(swarm.Rows(middle.workers[1]), "") << "both chunks were on their way to it";
  EXPECT_EQ(swarm.Rows(middle.workers[2]), "[8,16) none");
  const WorkerId late = middle.Join();
  EXPECT_EQ(swarm.Rows(late), "[0,16) none [16,42) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[1]), "[16,42) hidden");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(140, 3));
}

// A prompt that comes while the hole is open: as far as history has room for its rows.
TEST(Hole, WhatWaitsInFrontOfItIsBounded) {
  for (const uint64_t rows : {0u, 16u, 100u}) {
    ThreeStages three(WithHistory(rows * kRowBytes));
    TestSwarm& swarm = three.swarm;
    three.Lose(1);
    const RequestId request = swarm.Submit(Counting(100, 60), 3);
    // Two chunks may be on their way when the last row that has room comes.
    EXPECT_EQ(swarm.Rows(three.workers[0]), rows == 0    ? ""
                                            : rows == 16 ? "[0,24) hidden"
                                                         : "[0,60) hidden");
    const WorkerId late = three.Join();
    EXPECT_EQ(swarm.Rows(three.workers[0]), "[0,62) hidden");
    EXPECT_EQ(swarm.Rows(late), "[0,62) hidden");
    EXPECT_EQ(swarm.Tokens(request), Counting(160, 3));
  }
}

// ---- more than one ----

TEST(Hole, TwoThatAreApart) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(0);
  swarm.Lose(middle.workers[2]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  const WorkerId one = swarm.Join(Third());
  const WorkerId two = middle.Join();
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  const auto plan = middle.Plan();
  ASSERT_THAT(plan, SizeIs(3));
  EXPECT_EQ(plan[1], std::pair(middle.workers[1], (LayerSpan{2, 4})));
  EXPECT_EQ(Orders(swarm, middle.workers[1]), "");
  EXPECT_EQ(swarm.Rows(middle.workers[1]), "[24,29) hidden");
  EXPECT_EQ(swarm.Rows(plan[0].first), "[0,24) none [24,29) hidden");
  EXPECT_EQ(swarm.Rows(plan[2].first), "[0,24) none [24,29) argmax");
  for (const WorkerId id : {one, two}) EXPECT_EQ(Orders(swarm, id), "prepare ");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
}

// Each is asked for by itself and both are filled at once, with the cuts that there are: no other
// plan is looked for, which would have everybody load and compute again.
TEST(Hole, TwoThatAreApartAreFilledByTwo) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  swarm.hold_plans = true;
  TestWorker spare = Third();
  spare.answer_prepare = false;  // nobody stands by
  const WorkerId one = swarm.JoinTimed(spare), other = swarm.JoinTimed(spare);
  swarm.worker(one).answer_prepare = swarm.worker(other).answer_prepare = true;
  swarm.ClearLog();
  swarm.Lose(middle.workers[0]);
  swarm.Lose(middle.workers[2]);
  swarm.AnswerSteps(middle.workers[1]);
  ASSERT_TRUE(swarm.held_plans.back().repair);
  EXPECT_EQ(swarm.held_plans.back().repair->end_layer, 2);
  swarm.AnswerPlan({{one, {0, 2}}});
  ASSERT_TRUE(swarm.held_plans.back().repair) << "the second hole is no reason for other cuts";
  EXPECT_EQ(swarm.held_plans.back().repair->first_layer, 4);
  const StartPlanning& second = swarm.held_plans.back();
  for (const planner::RepairCandidate& each : second.repair->candidates) {
    const std::string& name = second.workers[static_cast<size_t>(each.worker)].name;
    if (name != "worker " + ToString(one)) continue;
    EXPECT_LT(each.free_bytes, 2 * kTestLayerBytes) << "it is needed for the first hole";
  }
  EXPECT_EQ(Orders(swarm, one), "") << "all holes are filled or none";
  swarm.AnswerPlan({{other, {4, 6}}});
  for (const WorkerId id : {one, other}) swarm.AnswerPrepares(id);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(middle.Plan(), ElementsAre(std::pair(one, LayerSpan{0, 2}),
                                         std::pair(middle.workers[1], LayerSpan{2, 4}),
                                         std::pair(other, LayerSpan{4, 6})));
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
  EXPECT_EQ(swarm.Rows(middle.workers[1]), "[24,29) hidden");
}

// Of a repair that failed, one has the layers of the second hole loaded. Given the first hole now,
// it has no room for both: what is loaded would have to go, and counts for nothing.
TEST(Hole, WhatIsLoadedCountsNotWhereItHasToGo) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  swarm.hold_plans = true;
  TestWorker spare = Third();
  spare.answer_prepare = false;  // nobody stands by
  const WorkerId one = swarm.JoinTimed(spare), other = swarm.JoinTimed(spare);
  swarm.worker(one).answer_prepare = true;
  swarm.Lose(middle.workers[0]);
  swarm.Lose(middle.workers[2]);
  swarm.AnswerSteps(middle.workers[1]);
  swarm.AnswerPlan({{other, {0, 2}}});
  swarm.AnswerPlan({{one, {4, 6}}});
  ASSERT_THAT(swarm.bindings(other), SizeIs(1));
  ASSERT_THAT(swarm.bindings(one), SizeIs(1));
  ASSERT_TRUE(swarm.bindings(one)[0].loaded);
  swarm.Control(other, swarm.Failed(swarm.bindings(other)[0].id, ErrorCode::kOutOfMemory));
  swarm.Advance(Milliseconds(200));
  ASSERT_TRUE(swarm.held_plans.back().repair);
  EXPECT_EQ(swarm.held_plans.back().repair->end_layer, 2);
  swarm.AnswerPlan({{one, {0, 2}}});
  const StartPlanning& second = swarm.held_plans.back();
  ASSERT_TRUE(second.repair);
  EXPECT_EQ(second.repair->first_layer, 4);
  size_t found = 0;
  for (const planner::RepairCandidate& each : second.repair->candidates) {
    if (second.workers[static_cast<size_t>(each.worker)].name != "worker " + ToString(one))
      continue;
    ++found;
    EXPECT_THAT(each.loaded_layers, testing::Each(false));
    EXPECT_LT(each.free_bytes, kTestLayerBytes);
  }
  EXPECT_EQ(found, 1u);
}

// The answer has waited long enough when somebody comes who may fill the hole: others that might
// join a little later are not waited for.
TEST(Hole, WhileAnAnswerWaitsWhoComesIsPlannedWithAtOnce) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(1);
  swarm.Join(Third());
  swarm.Advance(Milliseconds(20));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
}

TEST(Hole, NeighboursAreOneHole) {
  // One worker takes both stages: the cut between them is no more.
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(0);
  swarm.Lose(middle.workers[1]);
  TestWorker two_thirds;
  two_thirds.memory_bytes = 4'500'000;
  const WorkerId late = middle.Join(two_thirds);
  EXPECT_THAT(middle.Plan(), ElementsAre(std::pair(late, LayerSpan{0, 4}),
                                         std::pair(middle.workers[2], LayerSpan{4, 6})));
  EXPECT_EQ(swarm.Rows(late), "[0,24) none [24,29) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[2]), "[24,29) argmax");
  EXPECT_EQ(Orders(swarm, middle.workers[2]), "");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
}

TEST(Hole, NeighboursMayBeFilledByTwo) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(1);
  swarm.Lose(middle.workers[2]);
  swarm.Join(Third());
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  middle.Join();
  const auto plan = middle.Plan();
  ASSERT_THAT(plan, SizeIs(3));
  EXPECT_EQ(swarm.Rows(plan[0].first), "[24,29) hidden");
  // The rows at the cut between them are kept: both are filled at the same time.
  EXPECT_EQ(swarm.Rows(plan[1].first), "[0,24) none [24,29) hidden");
  EXPECT_EQ(swarm.Rows(plan[2].first), "[0,24) none [24,29) argmax");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
}

TEST(Hole, EveryStage) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(0);
  swarm.Lose(middle.workers[1]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  swarm.Lose(middle.workers[2]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().stages, IsEmpty());
  EXPECT_EQ(swarm.picture().active_requests, 1u);
  swarm.Advance(Seconds(800));
  EXPECT_THAT(swarm.Ends(middle.request), IsEmpty());
  // Others come and cut the model elsewhere.
  swarm.Join(Half());
  middle.Join(Half());
  const auto plan = middle.Plan();
  ASSERT_THAT(plan, ElementsAre(testing::Pair(testing::_, LayerSpan{0, 3}),
                                testing::Pair(testing::_, LayerSpan{3, 6})));
  EXPECT_EQ(swarm.Rows(plan[0].first), "[0,29) hidden");
  EXPECT_EQ(swarm.Rows(plan[1].first), "[0,24) none [24,29) argmax");
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 6));
}

// ---- whom it does not concern ----

TEST(Hole, ARequestMayBeCancelledAndItsConversationGoesOnLater) {
  MiddleOfAnswer middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(1);
  swarm.Cancel(middle.request);
  ASSERT_THAT(swarm.Ends(middle.request), SizeIs(1));
  EXPECT_EQ(swarm.Ends(middle.request)[0].reason, FinishReason::kCancelled);
  const WorkerId late = middle.Join();
  EXPECT_EQ(swarm.Rows(late), "[0,24) none") << "in idle time, for the next turn";
  EXPECT_EQ(swarm.Tokens(middle.request), Counting(124, 1));
  const RequestId next = swarm.Submit(Counting(100, 30), 2);
  EXPECT_EQ(swarm.Ends(next)[0].cached_prompt_tokens, 24u);
  EXPECT_EQ(swarm.Tokens(next), Counting(130, 2));
  EXPECT_EQ(swarm.Rows(late), "[0,24) none [24,31) hidden");
  // The row of position 24 waited in front of the hole when it was cancelled.
  EXPECT_EQ(swarm.Rows(middle.workers[0]), "[24,25) hidden [24,31) hidden");
  EXPECT_EQ(swarm.Rows(middle.workers[2]), "[24,31) argmax");
}

TEST(Hole, ARequestThatWasCancelledBeforeItsFirstTokenLeavesNothing) {
  MiddleOfPrompt middle;
  TestSwarm& swarm = middle.swarm;
  middle.Lose(2);
  swarm.Cancel(middle.request);
  EXPECT_EQ(swarm.core().sizes().sessions, 0u);
  for (const size_t i : {0u, 1u})
    EXPECT_EQ(Orders(swarm, middle.workers[i]), "invalidate ") << "nobody computes for it";
  const WorkerId late = middle.Join();
  EXPECT_EQ(swarm.Rows(late), "");
  EXPECT_THAT(swarm.Tokens(middle.request), IsEmpty());
}

TEST(Hole, ARequestThatComesMeanwhileIsAccepted) {
  ThreeStages three;
  TestSwarm& swarm = three.swarm;
  three.Lose(2);
  const RequestId request = swarm.Submit(Counting(100, 5), 2);
  EXPECT_EQ(swarm.picture().active_requests, 1u);
  EXPECT_EQ(swarm.Rows(three.workers[1]), "[0,5) hidden");
  three.Join();
  EXPECT_EQ(swarm.Tokens(request), Counting(105, 2));
}

// Not a loss, but the same way back: one stage runs a row again out of the history.
TEST(Hole, ADrawInTheTailRunsTheLastStageAgainAndNoOther) {
  ThreeStages three;
  TestSwarm& swarm = three.swarm;
  Request request;
  request.id = 1;
  request.prompt_ids = Counting(100, 6);
  request.max_tokens = 3;
  request.sampling.temperature = 1;
  request.sampling.seed = 3;
  swarm.tail_mass = 1e9f;
  swarm.Submit(request);
  EXPECT_EQ(swarm.Rows(three.workers[0]), "[0,8) hidden");
  EXPECT_EQ(swarm.Rows(three.workers[1]), "[0,8) hidden");
  EXPECT_EQ(swarm.Rows(three.workers[2]),
            "[0,6) candidates [5,6) draw [6,7) candidates [6,8) draw");
  EXPECT_EQ(swarm.Tokens(1), Counting(106, 3));
}

// The last stage goes between the candidates and the draw: its replacement draws.
TEST(Hole, AReplacementOfTheLastStageDrawsInItsPlace) {
  ThreeStages three;
  TestSwarm& swarm = three.swarm;
  swarm.worker(three.workers[2]).answer_steps = false;
  Request request;
  request.id = 1;
  request.prompt_ids = Counting(100, 6);
  request.max_tokens = 2;
  request.sampling.temperature = 1;
  swarm.tail_mass = 1e9f;
  swarm.Submit(request);
  swarm.AnswerStep(three.workers[2]);
  ASSERT_EQ(swarm.step(three.workers[2]).runs[0].output, wire::OutputKind::kDraw);
  three.Lose(2);
  const WorkerId late = three.Join();
  EXPECT_EQ(swarm.Rows(late), "[0,6) draw [6,7) candidates [6,7) draw");
  EXPECT_EQ(swarm.Rows(three.workers[0]), "[6,7) hidden");
  EXPECT_EQ(swarm.Tokens(1), Counting(106, 2));
}

}  // namespace
}  // namespace weft::swarm
