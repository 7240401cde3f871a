// A core that starts again with what the one before has placed: devices that come back serve with
// what they hold, nothing that they hold of conversations is believed, and whoever stays away is
// planned around.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// A worker for each stage, by the order of the layers.
std::vector<WorkerId> StagesOf(const TestSwarm& swarm) {
  std::vector<WorkerId> workers;
  for (const StageSnapshot& stage : swarm.picture().stages) workers.push_back(stage.worker);
  return workers;
}

std::vector<BindingId> BindingsOf(TestSwarm& swarm) {
  std::vector<BindingId> bindings;
  for (const PlacedStage& stage : swarm.core().placement().stages)
    bindings.push_back(stage.binding);
  return bindings;
}

TEST(Restart, ThePlanIsBackWithoutLoadingAnything) {
  TestSwarm swarm;
  swarm.BringUp(3, Third());
  ASSERT_THAT(swarm.Tokens(swarm.Submit(Counting(100, 20), 4)), SizeIs(4));
  const std::vector<WorkerId> workers = StagesOf(swarm);
  const std::vector<BindingId> bindings = BindingsOf(swarm);
  swarm.Restart();
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  std::vector<WorkerId> back;
  // Not in the order of the layers.
  for (const size_t i : {2u, 0u, 1u}) {
    EXPECT_NE(swarm.picture().state, SwarmState::kUp);
    back.push_back(swarm.Return(workers[i]));
  }
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp) << "without waiting for a timer";
  EXPECT_EQ(StagesOf(swarm), (std::vector<WorkerId>{back[1], back[2], back[0]}));
  EXPECT_EQ(BindingsOf(swarm), bindings);
  for (const WorkerId id : back) {
    EXPECT_EQ(swarm.Sent(id), "init") << "somebody may go on with what it holds";
    EXPECT_THAT(swarm.CloseReasons(id), IsEmpty());
  }
  const RequestId request = swarm.Submit(Counting(100, 20), 6);
  EXPECT_EQ(swarm.Tokens(request), Counting(120, 6));
  EXPECT_EQ(swarm.Ends(request)[0].cached_prompt_tokens, 0u);
  swarm.Advance(Seconds(61));
  for (const WorkerId id : back)
    EXPECT_THAT(swarm.Sent(id), HasSubstr("invalidate_sessions")) << "nobody wanted it";
}

TEST(Restart, NumbersGoOnWhereTheyWere) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  swarm.Submit({5}, 2);
  const Placement before = swarm.core().placement();
  const std::vector<WorkerId> workers = StagesOf(swarm);
  swarm.Restart();
  for (const WorkerId id : workers) swarm.Return(id);
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.core().placement().swarm_id, before.swarm_id);
  // A worker may hold a session that it does not tell of, and a minute's numbers may not have come
  // to where they are kept.
  swarm.ClearLog();
  swarm.Submit({5}, 2);
  ASSERT_THAT(swarm.runs(), Not(IsEmpty()));
  for (const TestRun& run : swarm.runs())
    EXPECT_GT(run.run.session, before.last_session.value() + 65'000);
  // Nor did every binding that was asked for come into the last placement.
  const WorkerId late = swarm.Join(Half());
  swarm.Advance(Seconds(20));
  ASSERT_THAT(swarm.bindings(late), Not(IsEmpty())) << "it stands by";
  EXPECT_GT(swarm.bindings(late)[0].id.value(), before.last_binding.value() + 65'000);
}

TEST(Restart, HowOftenADeviceWasLostIsKnown) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const WorkerId fickle = StagesOf(swarm).at(0), steady = StagesOf(swarm).at(1);
  WorkerId again = fickle;
  for (int i = 0; i < 3; ++i) {
    swarm.Advance(Seconds(60));
    swarm.Lose(again);
    again = swarm.Return(again);
    swarm.Advance(Seconds(1));
  }
  const auto rates = [&] {
    std::map<std::string, double> losses_per_s;
    swarm.hold_plans = true;
    swarm.Advance(Seconds(20));
    for (const planner::WorkerMetrics& worker : swarm.held_plans.back().workers)
      losses_per_s[worker.name] = worker.departures_per_s;
    swarm.AnswerNoPlan();
    swarm.hold_plans = false;
    return losses_per_s;
  };
  const auto before = rates();
  EXPECT_NEAR(before.at("worker " + ToString(again)), 4 / 2000.0, 1e-4);
  swarm.Restart();
  const WorkerId fickle_now = swarm.Return(again), steady_now = swarm.Return(steady);
  const auto after = rates();
  EXPECT_NEAR(after.at("worker " + ToString(fickle_now)), 4 / 2020.0, 1e-4);
  EXPECT_NEAR(after.at("worker " + ToString(steady_now)), 1 / 2020.0, 1e-4);
}

TEST(Restart, WhatWasMeasuredIsKnown) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  swarm.Submit(Counting(10, 20), 8);
  swarm.Advance(Seconds(20));
  const std::vector<WorkerId> workers = StagesOf(swarm);
  const Placement before = swarm.core().placement();
  ASSERT_TRUE(before.devices.at(0).times.bytes_per_us && before.devices.at(0).times.overhead_us);
  swarm.Restart();
  for (const WorkerId id : workers) swarm.Return(id);
  const Placement after = swarm.core().placement();
  ASSERT_THAT(after.devices, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(after.devices[i].device, before.devices[i].device);
    EXPECT_EQ(after.devices[i].times.overhead_us, before.devices[i].times.overhead_us);
    EXPECT_EQ(after.devices[i].times.bytes_per_us, before.devices[i].times.bytes_per_us);
    EXPECT_EQ(after.devices[i].times.load_rate, before.devices[i].times.load_rate);
  }
}

TEST(Restart, ARequestWaitsForThePlan) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const std::vector<WorkerId> workers = StagesOf(swarm);
  swarm.Restart();
  const RequestId request = swarm.Submit(Counting(10, 5), 3);
  EXPECT_THAT(swarm.picture().message, HasSubstr("waits for 2 devices"));
  swarm.Return(workers[0]);
  EXPECT_THAT(swarm.picture().message, HasSubstr("waits for 1 device"));
  swarm.Return(workers[1]);
  EXPECT_EQ(swarm.Tokens(request), Counting(15, 3));
}

TEST(Restart, NobodyLoadsWhileTheOthersMayComeBack) {
  TestSwarm swarm;
  swarm.BringUp(3, Third());
  const std::vector<WorkerId> workers = StagesOf(swarm);
  swarm.Restart();
  const WorkerId first = swarm.Return(workers[0]);
  const WorkerId stranger = swarm.Join();  // could hold everything
  swarm.Advance(Seconds(9));
  EXPECT_THAT(swarm.bindings(stranger), IsEmpty());
  EXPECT_EQ(swarm.picture().state, SwarmState::kRepairing);
  swarm.hold_plans = true;  // a better one, with the stranger, comes afterwards
  swarm.Return(workers[1]);
  const WorkerId third = swarm.Return(workers[2]);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(StagesOf(swarm)[0], first);
  EXPECT_EQ(StagesOf(swarm)[2], third);
}

TEST(Restart, WhoStaysAwayIsPlannedAround) {
  TestSwarm swarm;
  swarm.BringUp(3, Third());
  const std::vector<WorkerId> workers = StagesOf(swarm);
  swarm.Restart();
  const WorkerId first = swarm.Return(workers[0]);
  const WorkerId third = swarm.Return(workers[2]);
  const WorkerId spare = swarm.Join(Third());
  swarm.Advance(Seconds(11));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(StagesOf(swarm), (std::vector<WorkerId>{first, spare, third}));
  EXPECT_THAT(swarm.Sent(first), Not(HasSubstr("prepare_stage")));
  EXPECT_THAT(swarm.Sent(third), Not(HasSubstr("prepare_stage")));
  EXPECT_EQ(swarm.Tokens(swarm.Submit({5}, 3)), Counting(6, 3));
  // Late, but with its layers: it stands by.
  const WorkerId late = swarm.Return(workers[1]);
  EXPECT_THAT(swarm.bindings(late), SizeIs(1));
  EXPECT_THAT(swarm.CloseReasons(late), IsEmpty());
}

// The worker inside the server's process, say.
TEST(Restart, ADeviceThatHasLostEverythingIsNotWaitedFor) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const std::vector<WorkerId> workers = StagesOf(swarm);
  const std::string device = swarm.worker(workers[1]).device_id;
  swarm.Restart();
  const WorkerId first = swarm.Return(workers[0]);
  TestWorker empty = Half();
  empty.device_id = device;
  const WorkerId second = swarm.Join(empty);
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(StagesOf(swarm), (std::vector<WorkerId>{first, second}));
  EXPECT_THAT(swarm.Sent(first), Not(HasSubstr("prepare_stage")));
  EXPECT_THAT(swarm.Sent(second), HasSubstr("prepare_stage"));
}

TEST(Restart, ClaimsThatNobodyPlacedAreDropped) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const std::vector<WorkerId> workers = StagesOf(swarm);
  swarm.Restart([](CoreOptions& options) {
    // Its placement is older than the worker's binding.
    for (PlacedDevice& device : options.restored->devices) device.bindings.clear();
    options.restored->stages.clear();
  });
  const WorkerId id = swarm.Return(workers[0]);
  EXPECT_THAT(swarm.Sent(id), HasSubstr("release"));
  EXPECT_THAT(swarm.bindings(id), IsEmpty());
  swarm.Return(workers[1]);
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp) << "planned anew";
}

TEST(Restart, StandbysStandByAgain) {
  TestSwarm swarm;
  swarm.BringUp(3, Half());  // one of them has no part
  swarm.Advance(Seconds(20));
  const std::vector<WorkerId> workers = StagesOf(swarm);
  ASSERT_THAT(workers, SizeIs(2));
  ASSERT_THAT(swarm.picture().standbys, Not(IsEmpty()));
  const WorkerId spare = swarm.picture().standbys[0].worker;
  swarm.Restart();
  const WorkerId standby = swarm.Return(spare);
  swarm.Return(workers[0]);
  swarm.Return(workers[1]);
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm.Sent(standby), Not(HasSubstr("release")));
  EXPECT_THAT(swarm.Sent(standby), Not(HasSubstr("prepare_stage")));
}

// A spare that stood by with several ranges took over all of them: two stages are one device's.
TEST(Restart, ADeviceMayHaveTwoStages) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  TestWorker spare;
  spare.run_us = 5000;
  const WorkerId both = swarm.Join(spare);
  swarm.Advance(Seconds(2));
  swarm.hold_plans = true;
  for (const WorkerId worker : StagesOf(swarm)) swarm.Lose(worker);
  ASSERT_THAT(StagesOf(swarm), ElementsAre(both, both));
  swarm.hold_plans = false;
  swarm.Restart();
  swarm.Return(both);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.Tokens(swarm.Submit({7}, 2)), Counting(8, 2));
}

TEST(Restart, HappensAgainAndAgain) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  const std::vector<BindingId> bindings = BindingsOf(swarm);
  for (int i = 0; i < 5; ++i) {
    const std::vector<WorkerId> workers = StagesOf(swarm);
    ASSERT_THAT(workers, SizeIs(2)) << i;
    swarm.Restart();
    // The one in the middle ends before everybody is back.
    swarm.Return(workers[0]);
    const Placement between = swarm.core().placement();
    EXPECT_THAT(between.devices, SizeIs(2));
    EXPECT_TRUE(CheckPlacement(between, 6).ok());
    swarm.Return(workers[1]);
    ASSERT_EQ(swarm.picture().state, SwarmState::kUp) << i;
    EXPECT_EQ(BindingsOf(swarm), bindings);
    EXPECT_EQ(swarm.Tokens(swarm.Submit({7}, 2)), Counting(8, 2));
  }
}

TEST(Restart, VersionsRiseWithWhatIsPlaced) {
  TestSwarm swarm;
  const uint64_t empty = swarm.core().placement_version();
  swarm.BringUp(2, Half());
  const uint64_t up = swarm.core().placement_version();
  EXPECT_GT(up, empty);
  EXPECT_TRUE(CheckPlacement(swarm.core().placement(), 6).ok());
  swarm.Submit({5}, 3);
  swarm.Advance(Milliseconds(10));
  EXPECT_EQ(swarm.core().placement_version(), up) << "answers change nothing of it";
  swarm.Lose(StagesOf(swarm)[0]);
  EXPECT_GT(swarm.core().placement_version(), up);
  EXPECT_TRUE(CheckPlacement(swarm.core().placement(), 6).ok());
}

TEST(Restart, AnAnswerGoesOnBehindItsTokens) {
  TestSwarm swarm;
  swarm.BringUp(1);
  Request request;
  request.id = 50;
  request.prompt_ids = {3, 4, 5};
  request.answer_ids = {6, 7};
  request.max_tokens = 5;
  request.sampling.temperature = 0;
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(50), ElementsAre(8, 9, 10));
  ASSERT_THAT(swarm.Ends(50), SizeIs(1));
  EXPECT_EQ(swarm.Ends(50)[0].prompt_tokens, 3u);
  EXPECT_EQ(swarm.Ends(50)[0].generated_tokens, 5u);

  request.id = 51;
  request.max_tokens = 2;
  swarm.Submit(request);
  ASSERT_THAT(swarm.Ends(51), SizeIs(1));
  EXPECT_EQ(swarm.Ends(51)[0].reason, FinishReason::kLength);
  EXPECT_THAT(swarm.Tokens(51), IsEmpty());

  request.id = 52;
  request.max_tokens = 5;
  request.answer_ids = {6, -1};
  swarm.Submit(request);
  EXPECT_EQ(swarm.Ends(52)[0].reason, FinishReason::kError);
}

// A request of 40 tokens has five of its answer at two stages, whose devices come back to a new
// core. Its rows are in these generations.
class Adoption : public testing::Test {
 protected:
  Adoption() {
    TestWorker half = Half();
    half.answer_steps = false;
    swarm.BringUp(2, half);
    workers = StagesOf(swarm);
    first = swarm.Submit(Counting(100, 40), 20);
    AnswerUntil(first, 5);
    trace = swarm.Trace(first).value();
    tokens = swarm.Tokens(first);
  }

  void AnswerUntil(RequestId request, size_t token_count) {
    while (swarm.Tokens(request).size() < token_count)
      for (const WorkerId id : workers)
        if (swarm.unanswered_steps(id) > 0) swarm.AnswerStep(id);
  }
  // The devices come back to the next core, and answer at once.
  void BringBack(const std::function<void(CoreOptions&)>& change = {}) {
    for (const WorkerId id : workers) swarm.worker(id).answer_steps = true;
    swarm.Restart(change);
    for (WorkerId& id : workers) id = swarm.Return(id);
    swarm.ClearLog();
  }
  RequestId GoOn(std::optional<SessionTrace> resume) {
    Request request;
    request.id = 90;
    request.prompt_ids = Counting(100, 40);
    request.answer_ids = tokens;
    request.max_tokens = 20;
    request.sampling.temperature = 0;
    request.resume = resume;
    swarm.Submit(std::move(request));
    return 90;
  }

  TestSwarm swarm;
  std::vector<WorkerId> workers;
  RequestId first;
  SessionTrace trace;
  std::vector<int32_t> tokens;
};

TEST_F(Adoption, ARequestGoesOnInItsSession) {
  ASSERT_THAT(tokens, SizeIs(5));
  BringBack();
  EXPECT_EQ(swarm.Tokens(GoOn(trace)), Counting(145, 15));
  ASSERT_THAT(swarm.runs(), Not(IsEmpty()));
  for (const TestRun& run : swarm.runs()) {
    EXPECT_EQ(run.run.session, trace.session.value());
    EXPECT_GE(run.run.first_position, 44u) << "nothing is computed twice";
  }
  EXPECT_EQ(swarm.Trace(90)->session, trace.session);
  EXPECT_GT(swarm.Trace(90)->first_generation, trace.last_generation);
}

TEST_F(Adoption, ARequestMayBeThereBeforeTheDevices) {
  for (const WorkerId id : workers) swarm.worker(id).answer_steps = true;
  swarm.Restart();
  GoOn(trace);
  for (const WorkerId id : workers) swarm.Return(id);
  EXPECT_EQ(swarm.Tokens(90), Counting(145, 15));
  for (const TestRun& run : swarm.runs()) EXPECT_GE(run.run.first_position, 44u);
}

TEST_F(Adoption, WhoKnowsNoSessionBeginsAnew) {
  BringBack();
  EXPECT_EQ(swarm.Tokens(GoOn(std::nullopt)), Counting(145, 15));
  EXPECT_EQ(swarm.runs()[0].run.first_position, 0u);
}

// The device has not heard that the session was another request's before.
TEST_F(Adoption, RowsOfOtherGenerationsDoNotCount) {
  BringBack();
  EXPECT_EQ(swarm.Tokens(GoOn(
                SessionTrace{trace.session, trace.last_generation + 1, trace.last_generation + 9})),
            Counting(145, 15));
  EXPECT_EQ(swarm.runs()[0].run.first_position, 0u);
}

// Another request got the session afterwards, and whoever asked for the first one did not hear it.
TEST_F(Adoption, RowsOfAnotherRequestDoNotCount) {
  swarm.Cancel(first);
  for (const WorkerId id : workers)
    while (swarm.unanswered_steps(id) > 0) swarm.AnswerStep(id);
  std::vector<int32_t> other = Counting(100, 40);
  other.resize(42, 7);
  const RequestId second = swarm.Submit(other, 20);
  AnswerUntil(second, 3);
  ASSERT_EQ(swarm.Trace(second)->session, trace.session);
  BringBack();
  EXPECT_EQ(swarm.Tokens(GoOn(trace)), Counting(145, 15));
  EXPECT_EQ(swarm.runs()[0].run.first_position, 0u);
}

TEST_F(Adoption, AStageThatHoldsLessGetsWhatItLacks) {
  swarm.AnswerStep(workers[0]);  // one row is on its way to the second stage
  BringBack();
  EXPECT_EQ(swarm.Tokens(GoOn(trace)), Counting(145, 15));
  for (const TestRun& run : swarm.runs()) EXPECT_GE(run.run.first_position, 43u);
}

TEST_F(Adoption, ADeviceThatLostItsRowsCostsThemAlone) {
  swarm.worker(workers[0]).answer_steps = true;
  swarm.Restart();
  swarm.Return(workers[0]);
  swarm.Join(Half());
  swarm.Advance(Seconds(20));
  EXPECT_EQ(swarm.Tokens(GoOn(trace)), Counting(145, 15));
}

// A timer that stays behind would fire for ever.
TEST_F(Adoption, NobodyWaitsForASessionWithoutAPlan) {
  swarm.Restart();
  GoOn(trace);
  swarm.Lose(swarm.Return(workers[0]));
  swarm.Advance(Seconds(5));
  EXPECT_GT(swarm.core().next_timer().value_or(Instant{INT64_MAX}), swarm.now());
}

TEST_F(Adoption, WhoComesFirstTakesAPlaceThatIsClaimed) {
  BringBack([](CoreOptions& options) { options.session_count = 1; });
  EXPECT_EQ(swarm.Tokens(swarm.Submit({5}, 2)), Counting(6, 2));
  for (const WorkerId id : workers) EXPECT_THAT(swarm.Sent(id), HasSubstr("invalidate_sessions"));
  EXPECT_EQ(swarm.Tokens(GoOn(trace)), Counting(145, 15));
}

// The client of another server was told the logprobs of what is known.
TEST(Restart, LogprobsGoOnWhereTheOthersWereTold) {
  TestSwarm swarm;
  swarm.BringUp(1);
  Request request;
  request.id = 50;
  request.prompt_ids = {3, 4, 5};
  request.answer_ids = {6, 7};
  request.max_tokens = 4;
  request.sampling.temperature = 0;
  request.want_logprobs = true;
  swarm.Submit(request);
  ASSERT_THAT(swarm.Ends(50), SizeIs(1));
  EXPECT_EQ(swarm.Ends(50)[0].reason, FinishReason::kError);
  request.id = 51;
  request.logprobs_are_known = true;
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(51), ElementsAre(8, 9));
  std::vector<uint32_t> places;
  for (const Action& action : swarm.log())
    if (const auto* token = std::get_if<EmitToken>(&action)) places.push_back(token->index);
  EXPECT_THAT(places, ElementsAre(2, 3)) << "behind what is known";
}

TEST(Restart, WhatAnotherServerHadAcceptedStandsInFrontOfAFullQueue) {
  CoreOptions options = TestOptions();
  options.queue_limit = 2;
  TestSwarm swarm(options);
  Request request;
  request.prompt_ids = {3};
  request.max_tokens = 1;
  request.client = "somebody";
  for (const uint64_t id : {50, 51, 52}) {
    request.id = RequestId(id);
    request.client += "!";
    swarm.Submit(request);
  }
  request.id = 53;
  swarm.Submit(request);
  ASSERT_THAT(swarm.Ends(53), SizeIs(1));
  EXPECT_TRUE(swarm.Ends(53)[0].has_no_room);
  request.id = 54;
  request.was_accepted = true;
  swarm.Submit(request);
  EXPECT_THAT(swarm.Ends(54), IsEmpty());
  EXPECT_EQ(swarm.core().progress(54)->requests_ahead, 0u);
}

Placement Good() {
  Placement placement;
  placement.swarm_id = std::string(16, 's');
  placement.last_binding = BindingId(4);
  for (const uint32_t i : {0u, 1u}) {
    PlacedDevice& device = placement.devices.emplace_back();
    device.device = "device" + std::to_string(i);
    device.bindings.push_back({.id = BindingId(i + 1), .stage = i, .layers = {3 * i, 3 * i + 3}});
    placement.stages.push_back({BindingId(i + 1), {3 * i, 3 * i + 3}, 10});
  }
  return placement;
}

TEST(Placement, IsCheckedBeforeItIsBelieved) {
  ASSERT_TRUE(CheckPlacement(Good(), 6).ok());
  const std::pair<const char*, std::function<void(Placement&)>> mistakes[] = {
      {"swarm id", [](Placement& p) { p.swarm_id = "short"; }},
      {"used up", [](Placement& p) { p.last_session = SessionId(UINT32_MAX); }},
      {"used up", [](Placement& p) { p.last_binding = BindingId(UINT32_MAX); }},
      {"expected 1 to 4", [](Placement& p) { p.devices[0].bindings[0].id = BindingId(5); }},
      {"expected 1 to 4", [](Placement& p) { p.devices[0].bindings[0].id = BindingId(0); }},
      {"does not have",
       [](Placement& p) {
         p.devices[0].bindings[0].layers = {2, 9};
       }},
      {"does not have",
       [](Placement& p) {
         p.devices[0].bindings[0].layers = {3, 3};
       }},
      {"binding twice", [](Placement& p) { p.devices[1].bindings = p.devices[0].bindings; }},
      {"device twice", [](Placement& p) { p.devices[1].device = "device0"; }},
      {"without an id", [](Placement& p) { p.devices[1].device.clear(); }},
      {"weight factor", [](Placement& p) { p.devices[1].weight_factor = 0; }},
      {"rate that nothing has", [](Placement& p) { p.devices[1].times.overhead_us = -1; }},
      {"rate that nothing has", [](Placement& p) { p.devices[1].times.handover_us = NAN; }},
      {"rate that nothing has", [](Placement& p) { p.devices[1].times.load_rate = 0; }},
      {"not a number", [](Placement& p) { p.stages[0].predicted_us = std::nan(""); }},
      {"follow each other", [](Placement& p) { std::swap(p.stages[0], p.stages[1]); }},
      {"no device holds", [](Placement& p) { p.stages[1].binding = BindingId(4); }},
      {"no device holds", [](Placement& p) { p.stages[1].layers.end = 5; }},
      {"does not cover", [](Placement& p) { p.stages.pop_back(); }}};
  for (const auto& [sentence, spoil] : mistakes) {
    Placement placement = Good();
    spoil(placement);
    const Status status = CheckPlacement(placement, 6);
    ASSERT_FALSE(status.ok()) << sentence;
    EXPECT_THAT(status.error().message(), HasSubstr(sentence));
  }
  Placement hole = Good();
  hole.stages[1].binding = {};
  EXPECT_TRUE(CheckPlacement(hole, 6).ok());
  // A worker that served one range stood by with another one, and took over.
  Placement both = Good();
  both.devices[0].bindings.push_back(both.devices[1].bindings[0]);
  both.devices[1].bindings.clear();
  EXPECT_TRUE(CheckPlacement(both, 6).ok());
}

}  // namespace
}  // namespace weft::swarm
