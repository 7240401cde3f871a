// Moves from a plan that serves to a better one: the stream goes on meanwhile, what stays where it
// was hears nothing of it, and nothing is computed twice that need not be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using wire::pb::ServerMessage;
using wire::pb::WorkerMessage;

// A plan that serves and a request in the middle of its answer: 20 tokens of prompt, four of the
// answer, and the last stage computes the row of the last one. The test says which plans are found.
struct Moving {
  Moving(int count, const TestWorker& worker, const CoreOptions& options = TestOptions())
      : swarm(options) {
    swarm.BringUp(count, worker);
    for (const StageSnapshot& stage : swarm.picture().stages) workers.push_back(stage.worker);
    swarm.hold_plans = true;
    swarm.worker(workers.back()).answer_steps = false;
    request = swarm.Submit(Counting(100, 20), 10);
    while (swarm.Tokens(request).size() < 4) swarm.AnswerStep(workers.back());
  }
  // The answer goes on to its end.
  void Finish() {
    swarm.AnswerSteps(workers.back());
    EXPECT_EQ(swarm.Tokens(request), Counting(120, 10));
    EXPECT_THAT(swarm.Ends(request), SizeIs(1));
  }
  TestSwarm swarm;
  std::vector<WorkerId> workers;
  RequestId request;
};

// Both are measured alike, and the one that serves is half as fast in answers, as the other would
// be: it stays where it is.
TEST(Move, ANewcomerIsNotFasterForBeingMeasuredAlone) {
  TestSwarm swarm;
  TestWorker worker;
  worker.run_us = 1000;
  worker.compute_us = 12'000;
  worker.takes_time = true;
  swarm.BringUp(1, worker);
  swarm.Advance(Seconds(20));
  const double measured = swarm.picture().workers[0].speed_bytes_per_us;
  swarm.Tokens(swarm.Submit(Counting(100, 5), 30));
  EXPECT_NEAR(swarm.picture().workers[0].speed_bytes_per_us, measured / 2, measured / 20);
  swarm.Join(worker);
  swarm.Advance(Seconds(60));
  EXPECT_DOUBLE_EQ(swarm.picture().workers[1].speed_bytes_per_us, measured);
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  // One that is faster by more than that is used.
  worker.run_us = 300;
  const WorkerId fast = swarm.Join(worker);
  swarm.Advance(Seconds(60));
  EXPECT_EQ(swarm.picture().stages[0].worker, fast);
}

// A slow worker serves, a fast one joins: it is timed, loads and is sent what there is beside the
// plan that serves, and takes over when it has nearly all of it.
TEST(Move, TheNewcomerCatchesUpBesideTheStream) {
  TestSwarm swarm;
  TestWorker slow;
  slow.compute_us = 900'000;
  slow.answer_steps = false;
  swarm.BringUp(1, slow);
  const RequestId request = swarm.Submit(Counting(100, 30), 12);
  const auto answer = [&] {
    swarm.Advance(Milliseconds(900));
    swarm.AnswerStep(1);
  };
  for (int i = 0; i < 7; ++i) answer();
  EXPECT_THAT(swarm.Tokens(request), SizeIs(4));
  TestWorker fast;
  fast.answer_prepare = fast.answer_steps = false;
  swarm.Join(fast);
  answer();
  EXPECT_EQ(swarm.Sent(2), "init download_layers measure_speed release prepare_stage");
  answer();  // it loads, and the stream goes on
  swarm.Control(2, swarm.Prepared(2));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  EXPECT_EQ(swarm.Rows(2), "[0,8) none") << "one frame at a time, while nobody waits for it";
  answer();
  EXPECT_THAT(swarm.Tokens(request), SizeIs(7));
  swarm.AnswerStep(2);
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  swarm.AnswerStep(2);
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  swarm.AnswerStep(2);  // 24 of 36 rows
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(2)) << "the rest is no more than a moment";
  EXPECT_THAT(swarm.Sent(1), HasSubstr("release"));
  swarm.AnswerSteps(2);
  // The answer to the row that the old stage was computing is not waited for.
  EXPECT_EQ(swarm.Rows(1), "[0,24) none [24,37) argmax");
  EXPECT_EQ(swarm.Rows(2), "[0,32) none [32,41) argmax");
  EXPECT_EQ(swarm.Tokens(request), Counting(130, 12));
  EXPECT_THAT(swarm.Ends(request), SizeIs(1));
  swarm.AnswerStep(1);
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
}

// The plan that serves is never worse off for a better one that comes to nothing.
TEST(Move, ANewcomerThatGoesWhileItCatchesUpIsNotMissed) {
  Moving moving(1, {}, [] {
    CoreOptions options = TestOptions();
    options.prefill_chunk_rows = 2;
    return options;
  }());
  TestSwarm& swarm = moving.swarm;
  TestWorker held;
  held.answer_steps = false;
  const WorkerId late = swarm.JoinTimed(held);
  swarm.AnswerPlan({{late, {0, 6}}});
  ASSERT_EQ(swarm.Rows(late), "[0,2) none");
  EXPECT_EQ(swarm.picture().stages[0].worker, moving.workers[0]);
  EXPECT_THAT(swarm.picture().message, HasSubstr("A faster arrangement is being prepared"));
  swarm.ClearLog();
  swarm.Lose(late);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Sent(moving.workers[0]), "");
  swarm.AnswerSteps(moving.workers[0]);
  EXPECT_EQ(swarm.Rows(moving.workers[0]), "[24,29) argmax");
  EXPECT_EQ(swarm.Tokens(moving.request), Counting(124, 6));
}

TEST(Move, StagesThatStayHearNothingOfIt) {
  Moving moving(3, Third());
  TestSwarm& swarm = moving.swarm;
  const std::vector<WorkerId>& old = moving.workers;
  const WorkerId late = swarm.JoinTimed(Third());
  swarm.AnswerPlan({{old[0], {0, 2}}, {late, {2, 4}}, {old[2], {4, 6}}});
  EXPECT_EQ(swarm.picture().stages[1].worker, late);
  moving.Finish();
  for (const WorkerId id : {old[0], old[2]}) {
    EXPECT_EQ(swarm.Sent(id), "init prepare_stage");
    EXPECT_THAT(swarm.bindings(id), SizeIs(1));
  }
  EXPECT_EQ(swarm.Rows(old[0]), "[0,29) hidden");
  EXPECT_EQ(swarm.Rows(old[2]), "[0,16) none [16,29) argmax") << "what was on its way counts";
  EXPECT_EQ(swarm.Rows(late), "[0,24) none [24,29) hidden");
}

// Its last layers stay where they are, loaded and with their keys and values; one row was on its
// way to the binding that is over.
TEST(Move, AWorkerThatGivesLayersAwayKeepsWhatItComputedInTheOthers) {
  Moving moving(2, Half());
  TestSwarm& swarm = moving.swarm;
  const std::vector<WorkerId>& old = moving.workers;
  const WorkerId late = swarm.JoinTimed(Third());
  swarm.ClearLog();
  swarm.AnswerPlan({{old[0], {0, 3}}, {late, {3, 4}}, {old[1], {4, 6}}});
  ASSERT_THAT(swarm.picture().stages, SizeIs(3));
  EXPECT_THAT(swarm.Sent(old[1]), HasSubstr("prepare_stage retire"));
  const auto retired = swarm.Last(old[1], ServerMessage::kRetire).retire();
  ASSERT_EQ(retired.keep_size(), 1);
  EXPECT_EQ(retired.keep(0).first(), 4u);
  swarm.AnswerSteps(old[1]);
  EXPECT_EQ(swarm.Rows(old[0]), "[24,29) hidden");
  EXPECT_EQ(swarm.Rows(old[1]), "[23,29) argmax");
  EXPECT_EQ(swarm.Tokens(moving.request), Counting(124, 6));
  EXPECT_EQ(swarm.Held(old[1], {4, 6}), 29u);
}

// A cut that no plan had before: the stage in front of it gives its rows once more.
TEST(Move, ANewCutCostsTheStageInFrontOfIt) {
  Moving moving(2, Half());
  TestSwarm& swarm = moving.swarm;
  const std::vector<WorkerId>& old = moving.workers;
  const WorkerId late = swarm.JoinTimed(Third());
  swarm.ClearLog();
  swarm.AnswerPlan({{old[0], {0, 2}}, {late, {2, 3}}, {old[1], {3, 6}}});
  swarm.AnswerSteps(old[1]);
  EXPECT_EQ(swarm.Rows(old[0]), "[0,29) hidden");
  EXPECT_EQ(swarm.Rows(late), "[0,24) none [24,29) hidden") << "rows at layer 3 are known";
  EXPECT_EQ(swarm.Rows(old[1]), "[24,29) argmax");
  EXPECT_EQ(swarm.Tokens(moving.request), Counting(124, 6));
}

// A worker that cannot hold its old and its new layers: they are fetched while it serves, then it
// makes room, and the stream stands until they are loaded.
TEST(Move, WhereOldAndNewLayersDoNotFitTheStreamPauses) {
  Moving moving(2, Half());
  TestSwarm& swarm = moving.swarm;
  const std::vector<WorkerId>& old = moving.workers;
  swarm.worker(old[1]).answer_downloads = swarm.worker(old[1]).answer_prepare = false;
  const WorkerId late = swarm.JoinTimed(Half());
  swarm.ClearLog();
  swarm.AnswerPlan({{old[1], {0, 3}}, {late, {3, 6}}});
  const auto fetched = swarm.Last(old[1], ServerMessage::kDownloadLayers).download_layers();
  EXPECT_EQ(swarm.Sent(old[1]), "download_layers");
  EXPECT_THAT(swarm.Sent(late), Not(HasSubstr("prepare_stage"))) << "not before it is of use";
  swarm.AnswerStep(old[1]);
  EXPECT_THAT(swarm.Tokens(moving.request), SizeIs(1)) << "the stream goes on meanwhile";
  for (const uint32_t layer : fetched.layers()) {
    EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
    WorkerMessage downloaded;
    downloaded.mutable_layer_downloaded()->set_layer(layer);
    swarm.Control(old[1], downloaded);
  }
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  EXPECT_EQ(swarm.Sent(old[1]), "download_layers release prepare_stage");
  EXPECT_EQ(swarm.picture().active_requests, 1u);
  swarm.Control(old[1], swarm.Prepared(old[1]));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.AnswerSteps(old[1]);
  EXPECT_EQ(swarm.Tokens(moving.request), Counting(124, 6));
  EXPECT_THAT(swarm.Ends(moving.request), SizeIs(1));
}

// A loss while a better plan is being loaded: where the staged one does without the worker that has
// gone, it takes over as soon as it can.
TEST(Move, ALossOfWhatIsReplacedAnywayIsNoHole) {
  Moving moving(1, {});
  TestSwarm& swarm = moving.swarm;
  TestWorker held;
  held.answer_prepare = false;
  const WorkerId late = swarm.JoinTimed(held);
  swarm.AnswerPlan({{late, {0, 6}}});
  ASSERT_THAT(swarm.Sent(late), HasSubstr("prepare_stage"));
  swarm.ClearLog();
  swarm.Lose(moving.workers[0]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_EQ(swarm.Sent(late), "") << "it goes on with what it was asked for";
  swarm.Control(late, swarm.Prepared(late));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Rows(late), "[0,16) none [16,29) argmax");
  EXPECT_EQ(swarm.Tokens(moving.request), Counting(124, 6));
}

}  // namespace
}  // namespace weft::swarm
