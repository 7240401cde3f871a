// Plans of hubs: who is told to hold which experts, what hubs hear of it, what passes between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "swarm/tests/core_testing.h"
#include "wire/expert_frame.h"
#include "wire/expert_sets.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Kind = wire::pb::ServerMessage::KindCase;
using HeldExperts = std::set<std::pair<uint32_t, uint32_t>>;  // layer, expert

constexpr uint64_t kExpertBytes = 200'000;
constexpr uint32_t kExperts = 4, kSparseLayers = 4;

// Layers 1 to 4 have four experts each, 3.2 MB in all; what is left of the six layers are 2.8 MB.
CoreOptions SparseOptions() {
  CoreOptions options = TestOptions();
  options.plan_kind = PlanKind::kExperts;
  for (uint32_t layer = 1; layer <= kSparseLayers; ++layer) {
    options.model.layers[layer].expert_count = kExperts;
    options.model.layers[layer].experts_per_token = 1;
    options.model.layers[layer].expert_bytes = kExpertBytes;
  }
  return options;
}

TestWorker Hub() {
  TestWorker worker;
  worker.memory_bytes = 3'000'000;
  worker.can_be_hub = true;
  return worker;
}

TestWorker Holder(uint64_t memory_bytes = 100'000'000) {
  TestWorker worker;
  worker.memory_bytes = memory_bytes;
  worker.kind = "web";
  worker.engine = "webgpu";
  worker.takes_experts = true;
  return worker;
}

HeldExperts SetOf(const wire::ExpertSets& sets) {
  HeldExperts held;
  const std::vector<wire::LayerExperts> layers = wire::ReadExpertSets(sets, 6).value();
  for (const wire::LayerExperts& layer : layers)
    for (const uint32_t expert : layer.experts) held.emplace(layer.layer, expert);
  return held;
}

HeldExperts Told(const TestSwarm& swarm, WorkerId id) {
  return SetOf(swarm.Last(id, Kind::kHoldExperts).hold_experts().sets());
}

// Whom the hub may ask for what, by its last statement.
std::map<WorkerId, HeldExperts> Holders(const TestSwarm& swarm, WorkerId hub) {
  std::map<WorkerId, HeldExperts> holders;
  const wire::pb::ServerMessage message = swarm.Last(hub, Kind::kExpertHolders);
  for (const auto& holder : message.expert_holders().holders())
    holders[WorkerId(holder.peer())] = SetOf(holder.sets());
  return holders;
}

// How many holders each expert has.
std::map<std::pair<uint32_t, uint32_t>, int> Copies(
    const std::map<WorkerId, HeldExperts>& holders) {
  std::map<std::pair<uint32_t, uint32_t>, int> copies;
  for (const auto& [id, held] : holders)
    for (const auto& expert : held) ++copies[expert];
  return copies;
}

// A shard message with one CANCEL in it.
Slice ShardsTo(WorkerId peer) {
  const wire::ExpertFrame frame = wire::CancelFrame(7, 1, 2);
  std::vector<uint8_t> bytes;
  for (const Slice& piece :
       wire::EncodeShardMessage(static_cast<uint32_t>(peer.value()), {&frame, 1}))
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  return Slice(std::move(bytes));
}

TEST(CoreExperts, AHubServesOnceEveryExpertIsHeld) {
  TestSwarm swarm(SparseOptions());
  const WorkerId hub = swarm.Join(Hub());
  TestWorker slow = Holder();
  slow.answer_experts = false;
  const WorkerId holder = swarm.Join(slow);
  swarm.Advance(Milliseconds(200));
  EXPECT_TRUE(swarm.Last(hub, Kind::kPrepareStage).prepare_stage().is_hub());
  EXPECT_THAT(Told(swarm, holder), SizeIs(kSparseLayers * kExperts));
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_EQ(swarm.picture().experts_held, 0u);
  swarm.AnswerExperts(holder);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_EQ(swarm.picture().experts_held, kSparseLayers * kExperts);
  EXPECT_EQ(swarm.picture().message, "Ready: 1 device computes the model, 1 holds its experts.");
  EXPECT_THAT(Holders(swarm, hub), ElementsAre(std::pair(holder, Told(swarm, holder))));
  const RequestId request = swarm.Submit({3, 4, 5}, 3);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7, 8));
}

TEST(CoreExperts, HubsHearHowManyToAsk) {
  CoreOptions options = SparseOptions();
  options.expert_copies = 3;
  TestSwarm swarm(options);
  const WorkerId hub = swarm.Join(Hub());
  for (int i = 0; i < 3; ++i) swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.Last(hub, Kind::kExpertHolders).expert_holders().copies(), 3u);
  for (const auto& [expert, copies] : Copies(Holders(swarm, hub))) EXPECT_EQ(copies, 3);
}

// Its experts would give other bits than those of others.
TEST(CoreExperts, RowsInF16AreForThoseWhoKnowThem) {
  CoreOptions options = SparseOptions();
  options.half_rows = true;
  TestSwarm swarm(options);
  TestWorker hub = Hub();
  swarm.Join(hub);
  const WorkerId without = swarm.Join(Holder());
  TestWorker knows = Holder();
  knows.half_rows = hub.half_rows = true;
  const WorkerId holder = swarm.Join(knows);
  swarm.Advance(Milliseconds(200));
  EXPECT_NE(swarm.picture().state, SwarmState::kUp) << "an old one is no hub";
  const WorkerId second = swarm.Join(hub);
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_TRUE(swarm.Last(second, Kind::kExpertHolders).expert_holders().half_rows());
  EXPECT_THAT(Holders(swarm, second), ElementsAre(std::pair(holder, Told(swarm, holder))));
  EXPECT_THAT(swarm.Sent(without), testing::Not(HasSubstr("hold_experts")));
}

TEST(CoreExperts, WithoutTheOptionNobodyIsAHub) {
  CoreOptions options = SparseOptions();
  options.plan_kind = PlanKind::kLayers;
  TestSwarm swarm(options);
  TestWorker all = Holder();
  all.can_be_hub = true;
  const WorkerId id = swarm.Join(all);
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_FALSE(swarm.Last(id, Kind::kPrepareStage).prepare_stage().is_hub());
  EXPECT_THAT(swarm.Sent(id), testing::Not(HasSubstr("hold_experts")));
}

// Whole layers on the hub fit, and nothing waits for experts.
TEST(CoreExperts, WithAChoiceTheFasterPlanIsTaken) {
  CoreOptions options = SparseOptions();
  options.plan_kind = PlanKind::kAuto;
  TestSwarm swarm(options);
  TestWorker large = Hub();
  large.memory_bytes = 100'000'000;
  const WorkerId id = swarm.Join(large);
  swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_FALSE(swarm.Last(id, Kind::kPrepareStage).prepare_stage().is_hub());
}

// No worker, nor all of them, can hold the layers whole.
TEST(CoreExperts, WithAChoiceWhatFitsIsTaken) {
  CoreOptions options = SparseOptions();
  options.plan_kind = PlanKind::kAuto;
  TestSwarm swarm(options);
  const WorkerId hub = swarm.Join(Hub());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  swarm.Join(Holder(3'600'000));
  swarm.Advance(Seconds(1));
  EXPECT_TRUE(swarm.Last(hub, Kind::kPrepareStage).prepare_stage().is_hub());
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(CoreExperts, WithoutAHubThereIsNoPlan) {
  TestSwarm swarm(SparseOptions());
  swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
}

TEST(CoreExperts, NoOfferIsExceededAndNoExpertIsLeftOut) {
  TestSwarm swarm(SparseOptions());
  const WorkerId hub = swarm.Join(Hub());
  std::vector<WorkerId> holders;
  // Eight, six and four of the sixteen experts have room.
  for (const uint64_t bytes : {1'700'000, 1'300'000, 900'000})
    holders.push_back(swarm.Join(Holder(bytes)));
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  for (const WorkerId id : holders)
    EXPECT_LE(Told(swarm, id).size() * kExpertBytes, swarm.worker(id).memory_bytes);
  EXPECT_THAT(Copies(Holders(swarm, hub)), SizeIs(kSparseLayers * kExperts));
}

TEST(CoreExperts, MissingMemoryIsSaid) {
  TestSwarm swarm(SparseOptions());
  swarm.Join(Hub());
  swarm.Join(Holder(2'000'000));
  swarm.Advance(Milliseconds(200));
  const Snapshot picture = swarm.picture();
  EXPECT_EQ(picture.state, SwarmState::kPreparing);
  EXPECT_EQ(picture.missing_memory_bytes, 7 * kExpertBytes);
  EXPECT_THAT(picture.message, HasSubstr("more memory"));
}

TEST(CoreExperts, AHubHoldsExpertsBesideItsLayers) {
  TestSwarm swarm(SparseOptions());
  TestWorker all = Hub();
  all.takes_experts = true;
  all.memory_bytes = 7'000'000;
  const WorkerId hub = swarm.Join(all);
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(Holders(swarm, hub), ElementsAre(testing::Key(hub)));
}

// The hub's layers turn out to take twice what was thought, when it was told which experts to hold
// beside them and has said that it does: its answer to the statement that was replaced in between
// is late, not wrong.
TEST(CoreExperts, AnAnswerToAReplacedStatementIsLetPass) {
  TestSwarm swarm(SparseOptions());
  TestWorker all = Hub();
  all.takes_experts = true;
  all.memory_bytes = 7'000'000;
  all.answer_prepare = all.answer_experts = false;
  const WorkerId hub = swarm.Join(all);
  swarm.Advance(Milliseconds(200));
  const wire::pb::ServerMessage first = swarm.Last(hub, Kind::kHoldExperts);
  ASSERT_THAT(SetOf(first.hold_experts().sets()), SizeIs(kSparseLayers * kExperts));
  wire::pb::WorkerMessage prepared = swarm.Prepared(
      hub, BindingId(swarm.Last(hub, Kind::kPrepareStage).prepare_stage().binding()));
  prepared.mutable_prepared()->set_weight_factor(2);
  swarm.Control(hub, prepared);
  const wire::pb::ServerMessage second = swarm.Last(hub, Kind::kHoldExperts);
  ASSERT_GT(second.hold_experts().binding(), first.hold_experts().binding());
  wire::pb::WorkerMessage held;
  held.mutable_experts_held()->set_binding(first.hold_experts().binding());
  held.mutable_experts_held()->set_used_bytes(3'200'000);
  swarm.Control(hub, held);
  EXPECT_THAT(swarm.CloseReasons(hub), IsEmpty());
  EXPECT_EQ(swarm.picture().experts_held, 0u);
  swarm.AnswerExperts(hub);
  EXPECT_THAT(swarm.CloseReasons(hub), IsEmpty());
  // The newest was answered: now it is wrong.
  swarm.Control(hub, held);
  EXPECT_THAT(swarm.CloseReasons(hub), ElementsAre(HasSubstr("ExpertsHeld")));
}

// A hub that is left out keeps the experts that it holds, and with them the numbers of sessions: it
// hears when these end, or it would refuse those that come after it is back.
TEST(CoreExperts, AHubWithoutLayersHearsWhenSessionsEnd) {
  CoreOptions options = SparseOptions();
  options.session_count = 1;
  TestSwarm swarm(options);
  TestWorker all = Hub();
  all.takes_experts = true;
  all.memory_bytes = 7'000'000;
  all.answer_steps = false;
  const WorkerId first = swarm.Join(all);
  swarm.Advance(Seconds(1));
  all.answer_steps = true;
  const WorkerId second = swarm.Join(all);
  swarm.Advance(Seconds(1));
  const RequestId request = swarm.Submit({3, 4, 5}, 2);
  ASSERT_EQ(swarm.unanswered_steps(first), 1u);
  swarm.FailStep(first, ErrorCode::kInvalidData, "Layer 3 gave 7 values that are not finite.");
  swarm.Advance(Seconds(1));
  ASSERT_THAT(swarm.Tokens(request), ElementsAre(6, 7));
  ASSERT_THAT(swarm.Sent(first), HasSubstr("retire"));
  swarm.ClearLog();
  swarm.Submit({50, 51}, 2);
  EXPECT_THAT(swarm.Sent(second), HasSubstr("invalidate_sessions"));
  EXPECT_THAT(swarm.Sent(first), HasSubstr("invalidate_sessions"));
}

// Measured whole, its layers would need the memory that experts take elsewhere.
TEST(CoreExperts, AHubsLayersAreNotMeasuredWhole) {
  TestSwarm swarm(SparseOptions());
  TestWorker large = Hub();
  large.memory_bytes = 100'000'000;
  const WorkerId hub = swarm.Join(large);
  const WorkerId holder = swarm.Join(Holder());
  swarm.Advance(Seconds(30));
  ASSERT_TRUE(swarm.Last(hub, Kind::kPrepareStage).prepare_stage().is_hub());
  EXPECT_THAT(swarm.Sent(hub), testing::Not(HasSubstr("measure_speed")));
  EXPECT_THAT(swarm.Sent(holder), HasSubstr("measure_speed"));
}

TEST(CoreExperts, ALossWithReplicasChangesOnlyWhoIsAsked) {
  TestSwarm swarm(SparseOptions());
  const WorkerId hub = swarm.Join(Hub());
  std::vector<WorkerId> holders;
  for (int i = 0; i < 3; ++i) holders.push_back(swarm.Join(Holder(3'500'000)));
  swarm.Advance(Milliseconds(200));
  for (const auto& [expert, copies] : Copies(Holders(swarm, hub))) EXPECT_EQ(copies, 2);
  swarm.ClearLog();
  swarm.Lose(holders[0]);
  EXPECT_THAT(swarm.Sent(hub), HasSubstr("expert_holders"));
  EXPECT_THAT(swarm.Sent(hub), testing::Not(HasSubstr("prepare_stage")));
  const auto now = Holders(swarm, hub);
  EXPECT_FALSE(now.contains(holders[0]));
  EXPECT_THAT(Copies(now), SizeIs(kSparseLayers * kExperts));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(CoreExperts, AJoinMovesOnlyWhatBecomesTheNewcomers) {
  CoreOptions options = SparseOptions();
  options.expert_replicas = 1;
  TestSwarm swarm(options);
  const WorkerId hub = swarm.Join(Hub());
  const WorkerId first = swarm.Join(Holder()), second = swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  const HeldExperts before_first = Told(swarm, first), before_second = Told(swarm, second);
  TestWorker third = Holder();
  third.answer_experts = false;
  const WorkerId newcomer = swarm.Join(third);
  // Until it has them, those that had them go on.
  EXPECT_EQ(Told(swarm, first), before_first);
  EXPECT_EQ(Told(swarm, second), before_second);
  swarm.AnswerExperts(newcomer);
  const HeldExperts moved = Told(swarm, newcomer);
  HeldExperts left = before_first;
  left.insert(before_second.begin(), before_second.end());
  HeldExperts now = Told(swarm, first);
  now.merge(Told(swarm, second));
  for (const auto& expert : moved) left.erase(expert);
  EXPECT_EQ(now, left);
  EXPECT_THAT(Copies(Holders(swarm, hub)), SizeIs(kSparseLayers * kExperts));
}

// A native worker, which loads some experts beside others.
TestWorker NativeHolder() {
  TestWorker worker;
  worker.takes_experts = true;
  worker.answer_experts = false;
  return worker;
}

TEST(CoreExperts, WhatNobodyHoldsIsLoadedBeforeFurtherCopies) {
  TestSwarm swarm(SparseOptions());
  const WorkerId first = swarm.Join(NativeHolder()), second = swarm.Join(NativeHolder());
  const WorkerId hub = swarm.Join(Hub());
  swarm.Advance(Milliseconds(200));
  // Between them they have every expert once.
  const HeldExperts of_first = Told(swarm, first), of_second = Told(swarm, second);
  EXPECT_EQ(of_first.size() + of_second.size(), kSparseLayers * kExperts);
  HeldExperts all = of_first;
  all.insert(of_second.begin(), of_second.end());
  EXPECT_THAT(all, SizeIs(kSparseLayers * kExperts));
  swarm.AnswerExpertsOnce(first);
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_EQ(Told(swarm, first), all) << "the others are for it to load meanwhile";
  swarm.AnswerExpertsOnce(second);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.AnswerExpertsOnce(first);
  swarm.AnswerExpertsOnce(second);
  for (const auto& [expert, copies] : Copies(Holders(swarm, hub))) EXPECT_EQ(copies, 2);
}

TEST(CoreExperts, AWorkerIsToldOfWhatItLoadsInSomeSecondsHotOnesFirst) {
  CoreOptions options = SparseOptions();
  options.popularity = {{3, {1000, 100, 100, 5000}}};
  TestSwarm swarm(options);
  TestWorker slow = NativeHolder();
  slow.bytes_per_s = 3 * kExpertBytes / 10.0;
  const WorkerId holder = swarm.Join(slow);
  swarm.Join(Hub());
  swarm.Advance(Milliseconds(200));
  HeldExperts told = Told(swarm, holder);
  EXPECT_THAT(told, SizeIs(3));
  EXPECT_TRUE(told.contains({3, 3}));
  for (const size_t count : {6, 9, 12, 15, 16}) {
    swarm.AnswerExpertsOnce(holder);
    const HeldExperts now = Told(swarm, holder);
    EXPECT_THAT(now, SizeIs(count));
    EXPECT_TRUE(std::ranges::includes(now, told)) << "what it holds stays";
    told = now;
  }
  swarm.AnswerExpertsOnce(holder);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(CoreExperts, WhoIsVerySlowIsToldOfOneAtATime) {
  TestSwarm swarm(SparseOptions());
  TestWorker slow = NativeHolder();
  slow.bytes_per_s = 0.01;
  const WorkerId holder = swarm.Join(slow);
  swarm.Join(Hub());
  swarm.Advance(Milliseconds(200));
  EXPECT_THAT(Told(swarm, holder), SizeIs(1));
  swarm.AnswerExpertsOnce(holder);
  EXPECT_THAT(Told(swarm, holder), SizeIs(2));
}

TEST(CoreExperts, ATabIsToldOfEverythingAtOnce) {
  TestSwarm swarm(SparseOptions());
  TestWorker slow = Holder();
  slow.bytes_per_s = 1000;
  const WorkerId first = swarm.Join(slow), second = swarm.Join(slow);
  swarm.Join(Hub());
  swarm.Advance(Milliseconds(200));
  EXPECT_THAT(Told(swarm, first), SizeIs(kSparseLayers * kExperts));
  EXPECT_THAT(Told(swarm, second), SizeIs(kSparseLayers * kExperts));
}

// It has what it lets go of until it has read what is new.
TEST(CoreExperts, ANativeHolderHasRoomForWhatItHoldsAndWhatItReads) {
  TestSwarm swarm(SparseOptions());
  swarm.Join(Hub());
  TestWorker native = NativeHolder();
  native.answer_experts = true;
  native.memory_bytes = 9 * kExpertBytes;
  std::vector<WorkerId> holders;
  for (int i = 0; i < 5; ++i) {
    holders.push_back(swarm.Join(native));
    swarm.Advance(Milliseconds(200));
  }
  std::map<WorkerId, HeldExperts> held;
  int swaps = 0;
  for (const Action& action : swarm.log()) {
    const auto* control = std::get_if<SendControl>(&action);
    if (control == nullptr || !control->message.has_hold_experts()) continue;
    const HeldExperts told = SetOf(control->message.hold_experts().sets());
    HeldExperts& before = held[control->worker];
    swaps += std::ranges::includes(told, before) ? 0 : 1;
    HeldExperts both = told;
    both.insert(before.begin(), before.end());
    if (!std::ranges::includes(before, told)) {
      EXPECT_LE(both.size() * kExpertBytes, native.memory_bytes);
    }
    before = told;
  }
  EXPECT_GT(swaps, 0) << "those who came later took nothing over";
  for (const WorkerId holder : holders) EXPECT_GT(Told(swarm, holder).size(), 4u);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

// What `told` takes on a device where experts take so much.
wire::pb::WorkerMessage HeldOf(const wire::pb::HoldExperts& told,
                               const std::map<std::pair<uint32_t, uint32_t>, uint64_t>& taken) {
  uint64_t used_bytes = 0;
  for (const auto& expert : SetOf(told.sets())) used_bytes += taken.at(expert);
  wire::pb::WorkerMessage held;
  held.mutable_experts_held()->set_binding(told.binding());
  held.mutable_experts_held()->set_used_bytes(used_bytes);
  return held;
}

// Holders may take more memory for some experts than for others, which is known only once they are
// loaded. What they are told comes to an end all the same.
TEST(CoreExperts, HoldersAreToldNothingMoreInTheEnd) {
  constexpr int kTurns = 100;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRandom random(seed);
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> taken;
    for (uint32_t layer = 1; layer <= kSparseLayers; ++layer)
      for (uint32_t expert = 0; expert < kExperts; ++expert)
        taken[{layer, expert}] = kExpertBytes * (80 + random.Below(80)) / 100;
    TestSwarm swarm(SparseOptions());
    swarm.Join(Hub());
    std::set<WorkerId> holders;
    for (uint64_t count = 2 + random.Below(4); count > 0; --count) {
      TestWorker holder = NativeHolder();
      holder.memory_bytes = kExpertBytes * (600 + random.Below(1200)) / 100;
      holders.insert(swarm.Join(holder));
    }
    int last_told = 0;
    size_t at = 0;
    for (int turn = 0; turn < kTurns; ++turn, swarm.Advance(Milliseconds(20)))
      for (const size_t end = swarm.log().size(); at < end; ++at) {
        const auto* control = std::get_if<SendControl>(&swarm.log()[at]);
        if (!control || !holders.contains(control->worker)) continue;
        const wire::pb::HoldExperts told = control->message.hold_experts();
        // Of statements that follow each other the last is answered.
        if (!control->message.has_hold_experts() ||
            swarm.Last(control->worker, Kind::kHoldExperts).hold_experts().binding() !=
                told.binding())
          continue;
        last_told = turn;
        swarm.Control(control->worker, HeldOf(told, taken));
      }
    EXPECT_LT(last_told, kTurns / 2) << "seed " << seed;
  }
}

// Its rows need no line there.
TEST(CoreExperts, AHubHoldsTheHotExpertsOfItsLayers) {
  CoreOptions options = SparseOptions();
  options.expert_replicas = 1;
  HeldExperts hot;
  for (uint32_t layer = 1; layer <= kSparseLayers; ++layer) {
    std::vector<float> counts(kExperts, 100);
    counts[layer % kExperts] = 5000;
    options.popularity.push_back({layer, counts});
    hot.emplace(layer, layer % kExperts);
  }
  TestSwarm swarm(options);
  TestWorker with_room = Hub();
  with_room.takes_experts = true;
  with_room.memory_bytes += kSparseLayers * kExpertBytes + kExpertBytes / 2;
  const WorkerId hub = swarm.Join(with_room);
  for (int i = 0; i < 3; ++i) swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_TRUE(std::ranges::includes(Told(swarm, hub), hot));
}

// Nobody is told to drop what a hub would still ask it for.
TEST(CoreExperts, HubsHearOfItBeforeAnExpertIsDropped) {
  CoreOptions options = SparseOptions();
  options.expert_replicas = 1;
  TestSwarm swarm(options);
  const WorkerId hub = swarm.Join(Hub());
  const WorkerId holder = swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  swarm.Join(Holder());
  std::map<WorkerId, HeldExperts> asked;
  for (const Action& action : swarm.log()) {
    const auto* control = std::get_if<SendControl>(&action);
    if (control == nullptr) continue;
    if (control->worker == hub && control->message.has_expert_holders()) {
      asked.clear();
      for (const auto& each : control->message.expert_holders().holders())
        asked[WorkerId(each.peer())] = SetOf(each.sets());
    } else if (control->worker == holder && control->message.has_hold_experts()) {
      const HeldExperts told = SetOf(control->message.hold_experts().sets());
      for (const auto& expert : asked[holder]) EXPECT_TRUE(told.contains(expert));
    }
  }
  EXPECT_LT(Told(swarm, holder).size(), kSparseLayers * kExperts);
}

// The step waits in its hub, and the hub is not taken for one that hangs.
TEST(CoreExperts, AStepWaitsForExpertsThatNobodyHolds) {
  TestSwarm swarm(SparseOptions());
  TestWorker busy = Hub();
  const WorkerId hub = swarm.Join(busy);
  const WorkerId holder = swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  const RequestId request = swarm.Submit({3, 4, 5}, 3);
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  swarm.worker(hub).answer_steps = false;
  const RequestId waiting = swarm.Submit({8, 9}, 2);
  swarm.Lose(holder);
  swarm.Advance(Seconds(300));
  EXPECT_THAT(swarm.CloseReasons(hub), IsEmpty());
  EXPECT_THAT(Holders(swarm, hub), IsEmpty());
  const WorkerId other = swarm.Join(Holder());
  EXPECT_THAT(Holders(swarm, hub), ElementsAre(testing::Key(other)));
  swarm.Advance(Seconds(1));
  swarm.AnswerSteps(hub);
  EXPECT_THAT(swarm.Tokens(waiting), ElementsAre(10, 11));
}

// With every expert held its deadline runs.
TEST(CoreExperts, AHubThatHangsIsReplaced) {
  TestSwarm swarm(SparseOptions());
  TestWorker stuck = Hub();
  const WorkerId hub = swarm.Join(stuck);
  swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  ASSERT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), SizeIs(3));
  const WorkerId spare = swarm.Join(Hub());
  swarm.Advance(Seconds(1));
  swarm.worker(hub).answer_steps = false;
  const RequestId request = swarm.Submit({8, 9}, 2);
  swarm.Advance(Seconds(40));
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(10, 11));
  EXPECT_FALSE(Holders(swarm, spare).empty());
}

// Another hub would ask the same holders.
TEST(CoreExperts, AHubThatIsLateKeepsItsPlace) {
  TestSwarm swarm(SparseOptions());
  for (int i = 0; i < 2; ++i) swarm.Join(Hub());
  swarm.Join(Holder());
  swarm.Advance(Seconds(30));
  ASSERT_THAT(swarm.picture().standbys, SizeIs(1));
  ASSERT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 20)), SizeIs(20));
  const WorkerId hub = swarm.picture().stages[0].worker;
  swarm.worker(hub).answer_steps = false;
  const RequestId request = swarm.Submit({8, 9}, 2);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().stages[0].worker, hub);
  swarm.AnswerSteps(hub);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(10, 11));
}

// Kept hot it would ask for the experts of every token once more.
TEST(CoreExperts, AHubThatStandsByIsLoadedAndNotFed) {
  TestSwarm swarm(SparseOptions());
  for (int i = 0; i < 2; ++i) swarm.Join(Hub());
  swarm.Join(Holder());
  swarm.Advance(Seconds(30));
  ASSERT_THAT(swarm.picture().standbys, SizeIs(1));
  EXPECT_TRUE(swarm.picture().standbys[0].loaded);
  const RequestId request = swarm.Submit(std::vector<int32_t>(40, 3), 20);
  swarm.Advance(Seconds(2));
  EXPECT_THAT(swarm.Tokens(request), SizeIs(20));
  EXPECT_THAT(swarm.runs(), testing::Not(IsEmpty()));
  for (const TestRun& run : swarm.runs()) EXPECT_EQ(run.worker, swarm.picture().stages[0].worker);
}

TEST(CoreExperts, MessagesPassBetweenHubsAndHolders) {
  TestSwarm swarm(SparseOptions());
  const WorkerId hub = swarm.Join(Hub()), holder = swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  const auto passed = [&](WorkerId from, WorkerId to) {
    swarm.ClearLog();
    swarm.Feed(WorkerData{from, ShardsTo(to)});
    if (swarm.log().empty()) return std::pair<WorkerId, uint32_t>();
    const auto& data = std::get<SendData>(swarm.log()[0]);
    std::vector<uint8_t> bytes;
    for (const Slice& piece : data.pieces)
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    const wire::ShardMessage message = wire::DecodeShardMessage(Slice(std::move(bytes))).value();
    EXPECT_EQ(message.frames[0].sequence, 7u);
    return std::pair<WorkerId, uint32_t>(data.worker, message.peer);
  };
  EXPECT_EQ(passed(hub, holder), std::pair(holder, static_cast<uint32_t>(hub.value())));
  EXPECT_EQ(passed(holder, hub), std::pair(hub, static_cast<uint32_t>(holder.value())));
  // To somebody who has gone: nobody's fault.
  EXPECT_EQ(passed(hub, 99), std::pair(WorkerId{0}, uint32_t{0}));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(CoreExperts, AThirdMessageToTheWrongOnePutsItsSenderAside) {
  TestSwarm swarm(SparseOptions());
  const WorkerId hub = swarm.Join(Hub());
  const WorkerId bad = swarm.Join(Holder()), good = swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  for (int i = 0; i < 2; ++i) swarm.Feed(WorkerData{bad, ShardsTo(good)});
  EXPECT_TRUE(Holders(swarm, hub).contains(bad));
  swarm.Feed(WorkerData{bad, Slice(std::vector<uint8_t>{wire::kShardByte, 1})});
  EXPECT_THAT(Holders(swarm, hub), ElementsAre(testing::Key(good)));
  EXPECT_THAT(Told(swarm, bad), IsEmpty());
  EXPECT_THAT(swarm.picture().workers[1].problem, HasSubstr("expert message"));
}

TEST(CoreExperts, WhatDoesNotFitIsNotAskedForAgain) {
  TestSwarm swarm(SparseOptions());
  swarm.Join(Hub());
  TestWorker slow = Holder(2'100'000);
  slow.answer_experts = false;
  const WorkerId small = swarm.Join(slow);
  swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  const size_t asked = Told(swarm, small).size();
  swarm.Control(
      small, swarm.Failed(BindingId(swarm.Last(small, Kind::kHoldExperts).hold_experts().binding()),
                          ErrorCode::kOutOfMemory));
  EXPECT_LT(Told(swarm, small).size(), asked);
  swarm.AnswerExperts(small);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

TEST(CoreExperts, AnswersThatNobodyAskedForCloseTheConnection) {
  TestSwarm swarm(SparseOptions());
  swarm.Join(Hub());
  const WorkerId holder = swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  wire::pb::WorkerMessage again;
  again.mutable_experts_held()->set_binding(
      swarm.Last(holder, Kind::kHoldExperts).hold_experts().binding());
  swarm.Control(holder, again);
  EXPECT_THAT(swarm.CloseReasons(holder), ElementsAre(HasSubstr("ExpertsHeld")));
}

TEST(CoreExperts, AHolderThatLoadsForTooLongIsGivenUp) {
  TestSwarm swarm(SparseOptions());
  swarm.Join(Hub());
  TestWorker stuck = Holder();
  stuck.answer_experts = false;
  const WorkerId holder = swarm.Join(stuck);
  swarm.Advance(Seconds(61));
  EXPECT_THAT(swarm.CloseReasons(holder), SizeIs(1));
}

TEST(CoreExperts, MessagesOfHubsAndHoldersMayBeAsLongAsTheirRows) {
  CoreOptions options = SparseOptions();
  options.model.hidden_columns = 4096;
  options.prefill_chunk_rows = 128;
  TestSwarm swarm(options);
  TestWorker big = Hub();
  big.memory_bytes = 1'000'000'000;
  const WorkerId hub = swarm.Join(big), holder = swarm.Join(Holder(1'000'000'000));
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  for (const WorkerId id : {hub, holder}) EXPECT_GE(swarm.message_limit(id), 128u * 4096u * 4u);
}

// It has computed longer ones as one of two devices with whole layers.
TEST(CoreExperts, AHubThatTakesOverGetsFramesOfRowsThatHoldersTake) {
  CoreOptions options = SparseOptions();
  options.plan_kind = PlanKind::kAuto;
  options.context_length = 5000;
  options.prefill_chunk_rows = 128;
  options.prefill_chunk_time = Milliseconds(50);
  TestSwarm swarm(options);
  const WorkerId hub = swarm.Join(Hub());
  TestWorker other;
  other.memory_bytes = 5'000'000;
  const WorkerId leaver = swarm.Join(other);
  swarm.Advance(Seconds(1));
  swarm.Submit(std::vector<int32_t>(4000, 7), 500);
  swarm.Advance(Milliseconds(200));
  swarm.Join(Holder(3'600'000));
  swarm.Advance(Seconds(1));
  wire::pb::WorkerMessage leaving;
  leaving.mutable_leaving()->set_draining(true);
  swarm.Control(leaver, leaving);
  swarm.Advance(Seconds(5));
  uint16_t longest = 0, longest_before = 0;
  for (const TestRun& run : swarm.runs()) {
    if (run.worker != hub) continue;
    uint16_t& of = run.layers.is_hub() ? longest : longest_before;
    of = std::max(of, run.run.count);
  }
  EXPECT_GT(longest_before, options.prefill_chunk_rows);
  EXPECT_EQ(longest, options.prefill_chunk_rows);
}

TEST(CoreExperts, AfterARestartHubAndHoldersGoOn) {
  TestSwarm swarm(SparseOptions());
  const WorkerId hub = swarm.Join(Hub()), holder = swarm.Join(Holder());
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.Restart();
  const WorkerId hub_again = swarm.Return(hub), holder_again = swarm.Return(holder);
  swarm.Advance(Milliseconds(200));
  EXPECT_THAT(swarm.Sent(hub_again), testing::Not(HasSubstr("prepare_stage")));
  EXPECT_THAT(Holders(swarm, hub_again), ElementsAre(testing::Key(holder_again)));
  const RequestId request = swarm.Submit({3, 4, 5}, 2);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7));
}

}  // namespace
}  // namespace weft::swarm
