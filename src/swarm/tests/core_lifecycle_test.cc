// Plans: from Down to Up, what happens without enough memory or when layers cannot be loaded,
// measuring.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

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
  worker.answer_prepare = false;
  return worker;
}

TEST(Lifecycle, DownPreparingUp) {
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
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().workers[0].state, WorkerState::kActive);
}

TEST(Lifecycle, WorkersThatJoinTogetherArePlannedTogether) {
  TestSwarm swarm;
  for (int i = 0; i < 3; ++i) {
    swarm.Join(Third());
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

TEST(Lifecycle, APlanTakesOverWhenEveryStageIsLoaded) {
  TestSwarm swarm;
  TestWorker worker = Third();
  worker.answer_prepare = false;
  for (int i = 0; i < 3; ++i) swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  const RequestId request = swarm.Submit({5}, 2);
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) swarm.Control(id, swarm.Prepared(id));
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_THAT(swarm.runs(), IsEmpty());
  swarm.Control(3, swarm.Prepared(3));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7));
}

TEST(Lifecycle, NoMemoryAnywhereSaysHowMuchIsMissing) {
  TestSwarm swarm;
  swarm.Join(Third());
  swarm.Join(Third());
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
  swarm.Join(Third());
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().missing_memory_bytes, 0u);
}

TEST(Lifecycle, AFailedPrepareIsPlannedAgain) {
  TestSwarm swarm;
  swarm.Join(Held());
  swarm.Advance(Milliseconds(200));
  WorkerMessage failed;
  failed.mutable_failed()->set_binding(1);
  failed.mutable_failed()->set_code("unavailable");
  failed.mutable_failed()->set_message("line\nbroken");
  swarm.Control(1, failed);
  EXPECT_EQ(swarm.picture().workers[0].problem, "line?broken");
  EXPECT_EQ(swarm.Last(1, ServerMessage::kPrepareStage).prepare_stage().binding(), 2u);
  swarm.Control(1, swarm.Prepared(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(Lifecycle, AWorkerThatKeepsFailingIsPutAsideForAWhile) {
  TestSwarm swarm;
  swarm.Join(Held());
  swarm.Advance(Milliseconds(200));
  for (const uint32_t id : {1u, 2u, 3u})
    swarm.Control(1, swarm.Failed(BindingId(id), ErrorCode::kUnavailable));
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
  swarm.Join(Third());
  swarm.Advance(Milliseconds(200));
  swarm.Control(1, swarm.Failed(BindingId(1), ErrorCode::kOutOfMemory));
  const auto range = swarm.Last(1, ServerMessage::kPrepareStage).prepare_stage().layers();
  EXPECT_LT(range.end() - range.first(), 6u);
}

TEST(Lifecycle, AfterAWhileTheWholeOfferIsTriedAgain) {
  TestSwarm swarm;
  TestWorker worker = Held();
  worker.memory_bytes = 6'100'000;
  swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  swarm.Control(1, swarm.Failed(BindingId(1), ErrorCode::kOutOfMemory));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("more memory"));
  swarm.ClearLog();
  swarm.Advance(Seconds(10));
  EXPECT_THAT(swarm.Sent(1), Not(HasSubstr("prepare_stage")));
  swarm.worker(1).answer_prepare = true;
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
  swarm.Control(1, swarm.Failed(BindingId(1), ErrorCode::kOutOfMemory));
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
  swarm.Join(Third());
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

TEST(Lifecycle, ATabMayCompileKernelsForAMinute) {
  TestSwarm swarm;
  TestWorker tab = Held();
  tab.kind = "web";
  swarm.Join(tab);
  swarm.Advance(Seconds(59));
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
  swarm.Control(worker, swarm.Failed(BindingId(1), ErrorCode::kUnavailable));
  EXPECT_EQ(shown(), std::pair(uint64_t{0}, uint64_t{0}));
  swarm.Control(worker, progress);
  swarm.Control(worker, swarm.Prepared(worker));
  EXPECT_EQ(shown(), std::pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(swarm.picture().workers[0].state, WorkerState::kActive);
  EXPECT_EQ(shown(), std::pair(uint64_t{0}, uint64_t{0}));
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
  swarm.Join(Third());
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
  // Transformer layers only, and no run finds in a cache what the other range has just used.
  EXPECT_EQ(asked.ranges(0).first(), 1u);
  EXPECT_EQ(asked.ranges(0).end(), 2u);
  EXPECT_EQ(asked.ranges(1).first(), 2u);
  EXPECT_EQ(asked.ranges(1).end(), 5u);
  // C of a layer is 1 MB of reads: 1e6 bytes / 250 us.
  EXPECT_DOUBLE_EQ(swarm.picture().workers[1].speed_bytes_per_us, 4000);
  EXPECT_THAT(swarm.Sent(id), HasSubstr("measure_speed release"));
}

TEST(Measuring, LayersThatAreKeptTogetherAreTimedAsOne) {
  CoreOptions options = TestOptions();
  for (const size_t layer : {1, 2, 3, 4}) options.model.layers[layer].with_previous = true;
  TestSwarm swarm(options);
  swarm.BringUp(1);
  TestWorker second;
  second.run_us = 250;
  const WorkerId id = swarm.Join(second);
  swarm.Advance(Seconds(1));
  const auto asked = swarm.Last(id, ServerMessage::kMeasureSpeed).measure_speed();
  ASSERT_EQ(asked.ranges_size(), 2);
  for (const auto& range : asked.ranges()) {
    EXPECT_EQ(range.first(), 0u);
    EXPECT_EQ(range.end(), 5u);
  }
  EXPECT_GT(swarm.picture().workers[1].speed_bytes_per_us, 3000);
  // Where layers that may run alone are beside them, those are timed.
  options.model.layers[3].with_previous = options.model.layers[4].with_previous = false;
  TestSwarm other(options);
  other.BringUp(1);
  const WorkerId third = other.Join(second);
  other.Advance(Seconds(1));
  const auto alone = other.Last(third, ServerMessage::kMeasureSpeed).measure_speed();
  ASSERT_EQ(alone.ranges_size(), 2);
  EXPECT_EQ(alone.ranges(0).first(), 3u);
  EXPECT_EQ(alone.ranges(1).end(), 5u);
}

// It may compile kernels for long, on a busy machine.
TEST(Measuring, ATabHasMoreTime) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker tab;
  tab.kind = "web";
  tab.engine = "webgpu";
  tab.answer_measure = false;
  swarm.Join(tab);
  swarm.Advance(Seconds(80));
  EXPECT_EQ(swarm.picture().workers[1].problem, "");
  swarm.Advance(Seconds(15));
  EXPECT_THAT(swarm.picture().workers[1].problem, HasSubstr("did not measure"));
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

// A worker that would hold all six layers and says that they take half as much again, `used_bytes`
// in all: another plan is looked for.
WorkerId JoinWithReport(TestSwarm& swarm, uint64_t used_bytes) {
  TestWorker worker = Held();
  worker.memory_bytes = 6'100'000;
  const WorkerId id = swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  WorkerMessage prepared = swarm.Prepared(id);
  prepared.mutable_prepared()->set_weight_factor(1.5);
  prepared.mutable_prepared()->set_used_bytes(used_bytes);
  swarm.Control(id, prepared);
  return id;
}

// What it holds fits, so its report cannot be true of it: nothing else would serve for ever.
TEST(Lifecycle, AReportThatLeavesNoPlanIsDoubted) {
  TestSwarm swarm;
  const WorkerId id = JoinWithReport(swarm, 6'000'000);
  ASSERT_EQ(swarm.picture().state, SwarmState::kPreparing);
  const auto range = swarm.Last(id, ServerMessage::kPrepareStage).prepare_stage().layers();
  EXPECT_EQ(range.end(), 6u);
  WorkerMessage prepared = swarm.Prepared(id);
  prepared.mutable_prepared()->set_weight_factor(1.5);
  prepared.mutable_prepared()->set_used_bytes(6'000'000);
  swarm.Control(id, prepared);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.Advance(Seconds(60));
  const uint64_t version = swarm.picture().plan_version;
  swarm.Advance(Seconds(60));
  EXPECT_EQ(swarm.picture().plan_version, version);  // and stays so
}

TEST(Lifecycle, AWorkerThatHoldsMoreThanItOffersIsBelieved) {
  TestSwarm swarm;
  const WorkerId id = JoinWithReport(swarm, 9'000'000);
  WorkerMessage prepared = swarm.Prepared(id);
  prepared.mutable_prepared()->set_weight_factor(1.5);
  prepared.mutable_prepared()->set_used_bytes(9'000'000);
  swarm.Control(id, prepared);
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, HasSubstr("more memory"));
  swarm.ClearLog();
  swarm.Advance(Seconds(60));
  EXPECT_THAT(swarm.Sent(id), Not(HasSubstr("prepare_stage")));
}

TEST(Lifecycle, ALoadInDoubtThatRunsOutOfMemoryLowersWhatIsAsked) {
  TestSwarm swarm;
  const WorkerId id = JoinWithReport(swarm, 6'000'000);
  TestWorker small;
  small.memory_bytes = 1'500'000;
  swarm.Join(small);
  WorkerMessage failed;
  failed.mutable_failed()->set_binding(2);
  failed.mutable_failed()->set_code("out_of_memory");
  swarm.Control(id, failed);
  swarm.Advance(Milliseconds(200));
  const auto range = swarm.Last(id, ServerMessage::kPrepareStage).prepare_stage().layers();
  EXPECT_EQ(range.end() - range.first(), 5u);  // by its claim, in nine tenths of the offer
}

}  // namespace
}  // namespace weft::swarm
