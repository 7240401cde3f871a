// Plans: from Down to Up, hot swap beside a serving plan, what happens without enough memory,
// measuring, standby.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::pb::ServerMessage;
using wire::pb::WorkerMessage;

TestWorker Held() {
  TestWorker worker;
  worker.answer_prepare = worker.answer_commit = false;
  return worker;
}

TestWorker Small() {  // three of them hold the model, two do not
  TestWorker worker;
  worker.memory_bytes = 2'500'000;
  return worker;
}

TEST(Lifecycle, DownPreparingCommittingUp) {
  TestSwarm swarm;
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("open the join link"));
  swarm.Join(Held());
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("Looking for"));
  swarm.Advance(Milliseconds(150));
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_EQ(swarm.picture().workers[0].state, WorkerState::kPreparing);
  swarm.Control(1, swarm.Prepared(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kCommitting);
  swarm.Control(1, swarm.Committed(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().epoch, 1u);
  EXPECT_EQ(swarm.picture().workers[0].state, WorkerState::kActive);
}

TEST(Lifecycle, WorkersThatJoinTogetherArePlannedTogether) {
  TestSwarm swarm;
  for (int i = 0; i < 3; ++i) {
    swarm.Join(Small());
    swarm.Advance(Milliseconds(40));
  }
  swarm.Advance(Milliseconds(100));
  int plans = 0;
  for (const Action& action : swarm.log()) plans += std::holds_alternative<StartPlanning>(action);
  EXPECT_EQ(plans, 1);
  EXPECT_THAT(swarm.picture().stages, SizeIs(3));
}

TEST(Lifecycle, TheFirstPlanDoesNotWaitForMeasurements) {
  TestSwarm swarm;
  swarm.BringUp(2);
  const std::string all = swarm.Sent(1) + " " + swarm.Sent(2);
  EXPECT_LT(all.find("prepare_stage"), all.find("measure_speed"));
}

TEST(Lifecycle, CommitWaitsForEveryStage) {
  TestSwarm swarm;
  TestWorker worker = Small();
  worker.answer_prepare = worker.answer_commit = false;
  for (int i = 0; i < 3; ++i) swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  swarm.Control(1, swarm.Prepared(1));
  swarm.Control(2, swarm.Prepared(2));
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  swarm.Control(3, swarm.Prepared(3));
  EXPECT_EQ(swarm.picture().state, SwarmState::kCommitting);
  swarm.Control(1, swarm.Committed(1));
  swarm.Control(3, swarm.Committed(3));
  EXPECT_EQ(swarm.picture().state, SwarmState::kCommitting);
  swarm.Control(2, swarm.Committed(2));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(Lifecycle, NoMemoryAnywhereSaysHowMuchIsMissing) {
  TestSwarm swarm;
  swarm.Join(Small());
  swarm.Join(Small());
  swarm.Advance(Seconds(1));
  const Snapshot picture = swarm.picture();
  EXPECT_EQ(picture.state, SwarmState::kDown);
  EXPECT_GE(picture.missing_memory_bytes, 2 * kTestLayerBytes);
  EXPECT_LT(picture.missing_memory_bytes, 3 * kTestLayerBytes);
  EXPECT_THAT(picture.message, HasSubstr("This swarm needs 2"));
  EXPECT_THAT(picture.message, HasSubstr("more memory: open the join link on another device."));
  // What they can hold they download ahead.
  int downloads = 0;
  for (const WorkerSnapshot& worker : picture.workers)
    downloads += static_cast<int>(worker.cached_layers.size());
  EXPECT_GE(downloads, 4);  // and perhaps some more to be measured with
  EXPECT_THAT(picture.covered_layers, ElementsAre(true, true, true, true, false, false));
  // The missing device comes.
  swarm.Join(Small());
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().missing_memory_bytes, 0u);
}

// A slow worker serves, a fast one joins: it is measured first, then the plan moves over without
// the stream noticing.
TEST(Lifecycle, HotSwapKeepsTheStream) {
  TestSwarm swarm;
  TestWorker slow;
  slow.compute_us = 900'000;
  slow.answer_steps = false;
  swarm.BringUp(1, slow);
  const RequestId request = swarm.Submit({10, 11, 12}, 12);
  const auto answer = [&] {
    swarm.Advance(Milliseconds(900));
    swarm.AnswerStep(1);
  };
  for (int i = 0; i < 4; ++i) answer();
  EXPECT_THAT(swarm.Tokens(request), SizeIs(4));
  TestWorker fast;
  fast.answer_prepare = fast.answer_commit = fast.answer_steps = false;
  swarm.Join(fast);
  answer();
  EXPECT_EQ(swarm.Sent(2), "init download_layers measure_speed release prepare_stage");
  // Prepared in the background: the stream goes on.
  answer();
  EXPECT_THAT(swarm.Tokens(request), SizeIs(6));
  swarm.Control(2, swarm.Prepared(2));
  EXPECT_THAT(swarm.Sent(2), HasSubstr("prepare_stage commit_stage"));
  // The new worker has no part in the serving plan: that goes on until it has committed.
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  answer();
  EXPECT_THAT(swarm.Tokens(request), SizeIs(7));
  ASSERT_EQ(swarm.unanswered_steps(1), 1u);
  swarm.Control(2, swarm.Committed(2));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().epoch, 2u);
  EXPECT_THAT(swarm.Sent(1), HasSubstr("release"));
  // The new stage gets the whole context, in chunks of 8 rows, and gives the next token.
  ASSERT_EQ(swarm.unanswered_steps(2), 2u);
  swarm.AnswerStep(2);
  EXPECT_THAT(swarm.Tokens(request), SizeIs(7));
  swarm.worker(2).answer_steps = true;
  swarm.AnswerStep(2);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24));
  EXPECT_THAT(swarm.Ends(request), SizeIs(1));
}

// A worker that takes part in both plans commits last, since it takes no steps of the old plan from
// then on.
TEST(Lifecycle, WorkersOfTheServingPlanCommitLast) {
  TestSwarm swarm;
  swarm.BringUp(2, [] {
    TestWorker half;
    half.memory_bytes = 4'000'000;
    half.compute_us = 400'000;
    return half;
  }());
  swarm.worker(1).answer_steps = swarm.worker(2).answer_steps = false;
  swarm.worker(1).answer_commit = swarm.worker(2).answer_commit = false;
  const RequestId request = swarm.Submit({10}, 40);
  const auto answer = [&] {
    swarm.Advance(Milliseconds(400));
    for (const WorkerId id : {1, 2})
      if (swarm.unanswered_steps(id) > 0) return swarm.AnswerStep(id);
  };
  for (int i = 0; i < 12; ++i) answer();
  TestWorker fast;
  fast.memory_bytes = 4'000'000;
  fast.answer_commit = false;
  swarm.Join(fast);
  swarm.Advance(Milliseconds(300));
  ASSERT_THAT(swarm.Sent(3), HasSubstr("prepare_stage commit_stage"));
  const auto commits = [&](WorkerId id) {
    const std::string sent = swarm.Sent(id);
    return sent.find("commit_stage", sent.find("commit_stage") + 1) != std::string::npos;
  };
  EXPECT_FALSE(commits(1));
  EXPECT_FALSE(commits(2));
  const size_t tokens = swarm.Tokens(request).size();
  for (int i = 0; i < 4; ++i) answer();
  EXPECT_EQ(swarm.Tokens(request).size(), tokens + 2);
  swarm.Control(3, swarm.Committed(3));
  EXPECT_NE(commits(1), commits(2));  // one of them has to go
  EXPECT_EQ(swarm.picture().state, SwarmState::kCommitting);
  const WorkerId shared = commits(1) ? 1 : 2;
  swarm.Control(shared, swarm.Committed(shared));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().epoch, 2u);
}

// The same, but a worker cannot hold its old and its new layers: what is missing is downloaded
// while it still serves, then the stream pauses until the new plan is up, and goes on.
TEST(Lifecycle, AColdSwapPausesTheStreamAndLosesNothing) {
  TestSwarm swarm;
  swarm.BringUp(3, Small());
  const std::vector<StageSnapshot> before = swarm.picture().stages;
  ASSERT_THAT(before, SizeIs(3));
  // Only the middle stage is quick. Four layers of a fourth device leave it two at an end of the
  // model: it has to move.
  const WorkerId middle = before[1].worker;
  for (const StageSnapshot& stage : before)
    swarm.worker(stage.worker).compute_us = stage.worker == middle ? 20'000 : 400'000;
  swarm.worker(before[2].worker).answer_steps = false;  // the test sets the pace
  swarm.worker(middle).answer_downloads = false;
  const RequestId request = swarm.Submit({10, 11, 12}, 20);
  const auto answer = [&] {
    swarm.Advance(Milliseconds(820));
    swarm.AnswerStep(before[2].worker);
  };
  for (int i = 0; i < 5; ++i) answer();
  TestWorker fast;
  fast.memory_bytes = 4'500'000;
  fast.answer_prepare = false;
  const WorkerId joined = swarm.Join(fast);
  answer();
  const auto wanted = swarm.Last(middle, ServerMessage::kDownloadLayers).download_layers().layers();
  ASSERT_EQ(wanted.size(), 2);
  EXPECT_EQ(swarm.Sent(joined).find("prepare_stage"), std::string::npos);
  answer();
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.Tokens(request), SizeIs(7));
  for (const uint32_t layer : wanted) {
    WorkerMessage downloaded;
    downloaded.mutable_layer_downloaded()->set_layer(layer);
    swarm.Control(middle, downloaded);
  }
  if (swarm.picture().state == SwarmState::kUp)
    for (uint32_t layer = 0; layer < 6; ++layer) {
      WorkerMessage downloaded;
      downloaded.mutable_layer_downloaded()->set_layer(layer);
      swarm.Control(joined, downloaded);
    }
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_EQ(swarm.picture().active_requests, 1u);
  EXPECT_THAT(swarm.Sent(middle), HasSubstr("release prepare_stage"));
  swarm.Control(joined, swarm.Prepared(joined));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.picture().stages, SizeIs(2));
  std::vector<int32_t> expected(20);
  for (int i = 0; i < 20; ++i) expected[static_cast<size_t>(i)] = 13 + i;
  EXPECT_EQ(swarm.Tokens(request), expected);
  EXPECT_THAT(swarm.Ends(request), SizeIs(1));
}

TEST(Lifecycle, AFailedPrepareIsPlannedAgain) {
  TestSwarm swarm;
  swarm.Join(Held());
  swarm.Advance(Milliseconds(200));
  WorkerMessage failed;
  failed.mutable_failed()->set_epoch(1);
  failed.mutable_failed()->set_code("io");
  failed.mutable_failed()->set_message("disk\nfull");
  swarm.Control(1, failed);
  EXPECT_EQ(swarm.picture().workers[0].problem, "disk?full");
  EXPECT_EQ(swarm.Last(1, ServerMessage::kPrepareStage).prepare_stage().epoch(), 2u);
  swarm.Control(1, swarm.Prepared(1));
  swarm.Control(1, swarm.Committed(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(Lifecycle, AWorkerThatKeepsFailingIsPutAsideForAWhile) {
  TestSwarm swarm;
  swarm.Join(Held());
  swarm.Advance(Milliseconds(200));
  for (uint32_t epoch = 1; epoch <= 3; ++epoch) {
    WorkerMessage failed;
    failed.mutable_failed()->set_epoch(epoch);
    failed.mutable_failed()->set_code("io");
    swarm.Control(1, failed);
  }
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("cannot be used"));
  swarm.Advance(Seconds(14));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  swarm.Advance(Seconds(2));
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
}

TEST(Lifecycle, OutOfMemoryLowersWhatIsAskedOfTheWorker) {
  TestSwarm swarm;
  TestWorker worker = Held();
  worker.memory_bytes = 6'100'000;
  swarm.Join(worker);
  swarm.Join(Small());
  swarm.Advance(Milliseconds(200));
  WorkerMessage failed;
  failed.mutable_failed()->set_epoch(1);
  failed.mutable_failed()->set_code("out_of_memory");
  swarm.Control(1, failed);
  const auto range = swarm.Last(1, ServerMessage::kPrepareStage).prepare_stage().layers();
  EXPECT_LT(range.end() - range.first(), 6u);
}

TEST(Lifecycle, AfterAWhileTheWholeOfferIsTriedAgain) {
  TestSwarm swarm;
  TestWorker worker = Held();
  worker.memory_bytes = 6'100'000;
  swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  WorkerMessage failed;
  failed.mutable_failed()->set_epoch(1);
  failed.mutable_failed()->set_code("out_of_memory");
  swarm.Control(1, failed);
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("more memory"));
  swarm.ClearLog();
  swarm.Advance(Seconds(10));
  EXPECT_THAT(swarm.Sent(1), Not(HasSubstr("prepare_stage")));
  swarm.worker(1).answer_prepare = swarm.worker(1).answer_commit = true;
  swarm.Advance(Seconds(10));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

// What a prepare that failed would have brought is asked for again where it is wanted.
TEST(Lifecycle, LayersOfAFailedPrepareAreDownloadedWhenTheyAreWanted) {
  TestSwarm swarm;
  TestWorker worker = Held();
  worker.memory_bytes = 6'100'000;
  swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  ASSERT_THAT(swarm.Sent(1), HasSubstr("prepare_stage"));
  WorkerMessage failed;
  failed.mutable_failed()->set_epoch(1);
  failed.mutable_failed()->set_code("out_of_memory");
  swarm.Control(1, failed);
  // It cannot hold all layers: the deepest prefix that it can hold is downloaded ahead.
  ASSERT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.Last(1, ServerMessage::kDownloadLayers).download_layers().layers(),
              ElementsAre(0, 1, 2, 3, 4));
}

TEST(Lifecycle, AFactorThatMakesThePlanTooBigIsPlannedAgain) {
  TestSwarm swarm;
  TestWorker worker = Held();
  worker.memory_bytes = 6'100'000;
  swarm.Join(worker);
  swarm.Join(Small());
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.Last(1, ServerMessage::kPrepareStage).prepare_stage().layers().end(), 6u);
  WorkerMessage prepared = swarm.Prepared(1);
  prepared.mutable_prepared()->set_weight_factor(1.5);
  swarm.Control(1, prepared);
  const auto range = swarm.Last(1, ServerMessage::kPrepareStage).prepare_stage().layers();
  EXPECT_EQ(range.end() - range.first(), 4u);  // 4 x 1.5 MB
}

TEST(Lifecycle, PrepareThatNeverEndsIsGivenUp) {
  TestSwarm swarm;
  swarm.Join(Held());
  swarm.Advance(Seconds(19));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.Advance(Seconds(2));
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("did not prepare")));
}

TEST(Lifecycle, ADownloadThatMovesIsNotCutOff) {
  TestSwarm swarm;
  swarm.Join(Held());
  for (uint64_t done = 1; done <= 10; ++done) {
    swarm.Advance(Seconds(15));
    WorkerMessage progress;
    progress.mutable_download_progress()->set_done_bytes(done * 100);
    progress.mutable_download_progress()->set_total_bytes(2000);
    swarm.Control(1, progress);
  }
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  EXPECT_THAT(swarm.picture().message, HasSubstr("(50%)"));
}

// Whatever a worker said last of its download, its card does not show one that is over.
TEST(Lifecycle, ADownloadIsShownOnlyWhileItGoesOn) {
  TestSwarm swarm;
  const WorkerId worker = swarm.Join(Held());
  swarm.Advance(Milliseconds(200));
  WorkerMessage progress;
  progress.mutable_download_progress()->set_done_bytes(682);
  progress.mutable_download_progress()->set_total_bytes(840);
  const auto shown = [&] {
    const WorkerSnapshot picture = swarm.picture().workers[0];
    return std::pair(picture.downloaded_bytes, picture.download_total_bytes);
  };
  swarm.Control(worker, progress);
  EXPECT_EQ(shown(), std::pair(uint64_t{682}, uint64_t{840}));
  WorkerMessage failed;
  failed.mutable_failed()->set_epoch(1);
  failed.mutable_failed()->set_code("io");
  swarm.Control(worker, failed);
  EXPECT_EQ(shown(), std::pair(uint64_t{0}, uint64_t{0}));
  swarm.Control(worker, progress);
  swarm.Control(worker, swarm.Prepared(worker));
  EXPECT_EQ(shown(), std::pair(uint64_t{0}, uint64_t{0}));
  swarm.Control(worker, swarm.Committed(worker));
  EXPECT_EQ(swarm.picture().workers[0].state, WorkerState::kActive);
  EXPECT_EQ(shown(), std::pair(uint64_t{0}, uint64_t{0}));
}

TEST(Lifecycle, CommitThatNeverEndsIsGivenUp) {
  TestSwarm swarm;
  TestWorker worker;
  worker.answer_commit = false;
  swarm.Join(worker);
  swarm.Advance(Seconds(11));
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("did not commit")));
}

TEST(Lifecycle, StalePlanResultsAreIgnored) {
  TestSwarm swarm;
  swarm.hold_plans = true;
  swarm.Join();
  swarm.Advance(Milliseconds(200));
  ASSERT_THAT(swarm.held_plans, SizeIs(1));
  const StartPlanning first = swarm.held_plans[0];
  // The only worker of the job goes: its result must not be used.
  swarm.Lose(1);
  swarm.Join();
  swarm.Advance(Milliseconds(200));
  swarm.Feed(PlanFound{first.work, RunPlanning(first)});
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  swarm.Feed(PlanFound{swarm.held_plans.back().work, RunPlanning(swarm.held_plans.back())});
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.Feed(
      PlanFound{swarm.held_plans.back().work, RunPlanning(swarm.held_plans.back())});  // twice
  swarm.Feed(PlanFound{12345, {}});
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().epoch, 1u);
}

TEST(Lifecycle, APlanFoundOnOldNumbersIsCheckedAgain) {
  TestSwarm swarm;
  swarm.hold_plans = true;
  TestWorker worker = Held();
  worker.memory_bytes = 6'100'000;
  swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  const StartPlanning job = swarm.held_plans.back();
  swarm.Feed(PlanFound{job.work, RunPlanning(job)});
  swarm.Join(Small());
  swarm.Advance(Milliseconds(200));
  const StartPlanning second = swarm.held_plans.back();
  WorkerMessage prepared = swarm.Prepared(1);
  prepared.mutable_prepared()->set_weight_factor(1.5);
  swarm.Control(1, prepared);  // drops the staged plan; the job still counts with factor 1
  swarm.Feed(PlanFound{second.work, RunPlanning(second)});
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
}

TEST(Measuring, AStandbyIsTimedAndTheFormulasHold) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker second;
  second.run_us = 250;  // 250 us a layer and no overhead
  const WorkerId id = swarm.Join(second);
  swarm.Advance(Seconds(1));
  const auto asked = swarm.Last(id, ServerMessage::kMeasureSpeed).measure_speed();
  EXPECT_EQ(asked.runs(), 7u);
  ASSERT_EQ(asked.ranges_size(), 2);
  EXPECT_EQ(asked.ranges(0).first(), asked.ranges(1).first());
  EXPECT_GE(asked.ranges(0).first(), 1u);  // transformer layers only
  EXPECT_LE(asked.ranges(1).end(), 5u);
  EXPECT_EQ(asked.ranges(0).end() - asked.ranges(0).first(), 2u);
  EXPECT_EQ(asked.ranges(1).end() - asked.ranges(1).first(), 4u);
  // C of a layer is 1 MB of reads: 1e6 bytes / 250 us.
  EXPECT_DOUBLE_EQ(swarm.picture().workers[1].speed_bytes_per_us, 4000);
  EXPECT_THAT(swarm.Sent(id), HasSubstr("measure_speed release"));
}

TEST(Measuring, AMeasurementThatNeverEndsDoesNotBlockAnything) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker second;
  second.answer_measure = false;
  const WorkerId id = swarm.Join(second);
  swarm.Advance(Seconds(60));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.picture().workers[1].problem, HasSubstr("did not measure"));
  // The first one goes: the one that could not be measured is better than nothing.
  swarm.Lose(1);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().stages[0].worker, id);
}

TEST(Measuring, ActiveNativeWorkersAreTimedWhileIdle) {
  TestSwarm swarm;
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Sent(1).find("measure_speed"), std::string::npos);
  swarm.Advance(Seconds(20));
  EXPECT_NE(swarm.Sent(1).find("measure_speed"), std::string::npos);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_DOUBLE_EQ(swarm.picture().workers[0].speed_bytes_per_us, 10'000);
}

TEST(Standby, AnotherWorkerHoldsTheLayersReady) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker slower;
  slower.run_us = 300;
  const WorkerId id = swarm.Join(slower);
  swarm.Advance(Seconds(40));
  const Snapshot picture = swarm.picture();
  EXPECT_EQ(picture.stages[0].worker, 1u);
  EXPECT_EQ(picture.workers[1].state, WorkerState::kStandby);
  EXPECT_THAT(picture.workers[1].cached_layers, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(picture.workers[1].used_bytes, 0u);  // on disk, not in memory
  swarm.Lose(1);
  swarm.Advance(Milliseconds(10));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().stages[0].worker, id);
}

TEST(Lifecycle, APackageWithoutProgramsNeedsOnnxWorkers) {
  CoreOptions options = TestOptions();
  options.model.lowered = false;
  TestSwarm swarm(options);
  swarm.Join();
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("cannot be used"));
  swarm.Advance(Seconds(60));
  EXPECT_EQ(swarm.Sent(1), "init");  // nothing to download or to measure
  TestWorker onnx;
  onnx.kind = "web";
  onnx.engine = "ort-wasm";
  onnx.needs_onnx = true;
  swarm.Join(onnx);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

}  // namespace
}  // namespace weft::swarm
