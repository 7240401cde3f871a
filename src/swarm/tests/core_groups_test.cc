// Plans of hubs for models in neuron groups: who takes part, who goes on when somebody is lost, and
// which plans there are for which models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "swarm/experts/exchange_costs.h"
#include "swarm/tests/core_testing.h"
#include "wire/datagram.h"
#include "wire/expert_sets.h"
#include "wire/group_sums.h"

namespace weft::swarm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::UnorderedElementsAre;

using Kind = wire::pb::ServerMessage::KindCase;

constexpr uint32_t kGroups = 4, kGroupedLayers = 4;

// Layers 1 to 4 have an MLP of four groups of 200 kB each.
CoreOptions GroupOptions(PlanKind kind = PlanKind::kTensor) {
  CoreOptions options = TestOptions();
  options.plan_kind = kind;
  options.model.has_onnx = false;
  for (uint32_t layer = 1; layer <= kGroupedLayers; ++layer) {
    ModelLayer& costs = options.model.layers[layer];
    costs.expert_count = costs.experts_per_token = kGroups;
    costs.expert_bytes = 200'000;
    costs.groups = true;
  }
  return options;
}

TestWorker GroupWorker(uint64_t memory_bytes = 100'000'000) {
  TestWorker worker;
  worker.memory_bytes = memory_bytes;
  worker.takes_experts = worker.can_be_hub = worker.runs_groups = true;
  return worker;
}

TestWorker TabWithoutGroups() {
  TestWorker worker;
  worker.kind = "web";
  worker.engine = "webgpu";
  worker.takes_experts = true;
  return worker;
}

// How many groups the hub may ask each holder for, by its last statement.
std::map<WorkerId, size_t> GroupHolders(const TestSwarm& swarm, WorkerId hub) {
  std::map<WorkerId, size_t> holders;
  const wire::pb::ServerMessage message = swarm.Last(hub, Kind::kExpertHolders);
  for (const auto& holder : message.expert_holders().holders()) {
    size_t& count = holders[WorkerId(holder.peer())];
    const auto layers = wire::ReadExpertSets(holder.sets(), 6).value();
    for (const wire::LayerExperts& layer : layers) count += layer.experts.size();
  }
  return holders;
}

size_t GroupCount(const std::map<WorkerId, size_t>& holders) {
  size_t count = 0;
  for (const auto& [id, groups] : holders) count += groups;
  return count;
}

TEST(CoreGroups, EveryGroupIsWithTwoDevicesTheHubAmongThem) {
  TestSwarm swarm(GroupOptions());
  const WorkerId hub = swarm.Join(GroupWorker());
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp) << "one device is a swarm";
  EXPECT_EQ(GroupCount(GroupHolders(swarm, hub)), kGroupedLayers * kGroups);
  const WorkerId second = swarm.Join(GroupWorker()), third = swarm.Join(GroupWorker());
  swarm.Advance(Seconds(1));
  EXPECT_THAT(GroupHolders(swarm, hub), UnorderedElementsAre(Key(hub), Key(second), Key(third)));
  EXPECT_EQ(GroupCount(GroupHolders(swarm, hub)), 2 * kGroupedLayers * kGroups);
  EXPECT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), testing::ElementsAre(6, 7, 8));
  swarm.Lose(second);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.Advance(Seconds(1));
  EXPECT_THAT(GroupHolders(swarm, hub), UnorderedElementsAre(Key(hub), Key(third)));
  EXPECT_EQ(GroupCount(GroupHolders(swarm, hub)), 2 * kGroupedLayers * kGroups)
      << "others took its groups over";
}

TEST(CoreGroups, AHubIsToldWhoKnowsStepsAndIntegers) {
  TestSwarm swarm(GroupOptions());
  TestWorker knows = GroupWorker();
  knows.sum_steps = knows.integer_rows = true;
  const WorkerId hub = swarm.Join(knows);
  swarm.Advance(Milliseconds(200));
  const WorkerId second = swarm.Join(knows), old = swarm.Join(GroupWorker());
  swarm.Advance(Seconds(1));
  std::map<WorkerId, bool> told;
  const wire::pb::ServerMessage message = swarm.Last(hub, Kind::kExpertHolders);
  for (const auto& holder : message.expert_holders().holders()) {
    told[WorkerId(holder.peer())] = holder.steps();
    EXPECT_EQ(holder.integers(), holder.steps());
  }
  const std::map<WorkerId, bool> expected = {{hub, false}, {second, true}, {old, false}};
  EXPECT_EQ(told, expected) << "what a hub sends to itself goes over no line";
}

// The output head is in ranges, too.
TEST(CoreGroups, RangesOfTheHeadAreWithThoseWhoKnowThem) {
  CoreOptions options = GroupOptions();
  ModelLayer& head = options.model.layers.back();
  head.expert_count = head.experts_per_token = 8;
  head.expert_bytes = head.weight_bytes / 8;
  head.head_range_columns = 16;
  TestSwarm swarm(options);
  TestWorker old = GroupWorker();
  const WorkerId without = swarm.Join(old);
  swarm.Advance(Milliseconds(200));
  EXPECT_NE(swarm.picture().state, SwarmState::kUp) << "an old one is no hub of such a head";
  TestWorker knows = GroupWorker();
  knows.divides_heads = true;
  const WorkerId hub = swarm.Join(knows), second = swarm.Join(knows);
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  const bool is_first = !GroupHolders(swarm, hub).empty();
  const auto holders = GroupHolders(swarm, is_first ? hub : second);
  EXPECT_THAT(holders, UnorderedElementsAre(Key(hub), Key(second)));
  EXPECT_FALSE(holders.contains(without));
  EXPECT_EQ(GroupCount(holders), 2 * (kGroupedLayers * kGroups + 8));
  EXPECT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), testing::ElementsAre(6, 7, 8));
}

// Attention of three layers is in ranges: of q, k and v in one exchange, of o in another.
TEST(CoreGroups, RangesOfProductsAreWithTheHubAndOthersWhoKnowThem) {
  constexpr uint32_t kDivided = 3, kRanges = 6;
  CoreOptions options = GroupOptions();
  for (uint32_t layer = 1; layer <= kDivided; ++layer) {
    ModelLayer& costs = options.model.layers[layer];
    costs.range_count = kRanges;
    costs.range_exchanges = 2;
    costs.range_columns = 16;
    costs.range_bytes = 20'000;
  }
  TestSwarm swarm(options);
  const WorkerId without = swarm.Join(GroupWorker());
  TestWorker tab = GroupWorker();
  tab.kind = "web";
  tab.engine = "webgpu";
  tab.rows_to_server = tab.divides_products = true;
  const WorkerId served = swarm.Join(tab);
  swarm.Advance(Milliseconds(200));
  EXPECT_NE(swarm.picture().state, SwarmState::kUp)
      << "an old one is no hub of such layers, nor is one that the server serves";
  swarm.Lose(served);
  TestWorker knows = GroupWorker();
  knows.divides_products = true;
  const WorkerId hub = swarm.Join(knows), second = swarm.Join(knows), third = swarm.Join(knows);
  swarm.Advance(Seconds(2));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  std::map<WorkerId, std::vector<wire::LayerExperts>> held;
  WorkerId planned = hub;
  for (const WorkerId each : {hub, second, third})
    if (!GroupHolders(swarm, each).empty()) planned = each;
  const wire::pb::ServerMessage message = swarm.Last(planned, Kind::kExpertHolders);
  for (const auto& holder : message.expert_holders().holders())
    held[WorkerId(holder.peer())] = wire::ReadExpertSets(holder.sets(), 6).value();
  EXPECT_FALSE(held.contains(without));
  size_t of_others = 0;
  for (const auto& [id, layers] : held)
    for (const wire::LayerExperts& layer : layers) {
      const auto ranges = std::ranges::count_if(
          layer.experts, [](uint32_t part) { return part >= kGroups && part < kGroups + kRanges; });
      if (id == planned)
        EXPECT_EQ(ranges, layer.layer <= kDivided ? kRanges : 0)
            << "on a slow line it computes all of them";
      else
        of_others += static_cast<size_t>(ranges);
    }
  EXPECT_GE(of_others, kDivided * kRanges) << "each is with somebody else, too";
  EXPECT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), testing::ElementsAre(6, 7, 8));
}

// What is lost (serve --lossy).
class CoreLossesTest : public testing::Test {
 protected:
  static CoreOptions Options(bool lossy) {
    CoreOptions options = GroupOptions();
    if (lossy) options.loss_limit = 0.125;
    options.model.layers[2].group_norms = {1, 2, 3, 4};
    return options;
  }
  explicit CoreLossesTest(bool lossy = true) : swarm_(Options(lossy)) {
    hub_ = swarm_.Join(GroupWorker());
    swarm_.Advance(Seconds(1));
    swarm_.worker(hub_).answer_steps = false;
    request_ = swarm_.Submit({3, 4, 5}, 2);
  }
  wire::pb::WorkerMessage Lost(uint32_t groups, uint32_t session = 1) {
    wire::pb::WorkerMessage message;
    auto& lost = *message.mutable_groups_lost();
    lost.set_sequence(swarm_.step(hub_).header.sequence);
    lost.set_binding(swarm_.step(hub_).header.binding);
    lost.add_sessions(session);
    lost.add_groups(groups);
    return message;
  }
  static wire::pb::WorkerMessage Report(bool reliable = false) {
    wire::pb::WorkerMessage message;
    auto& report = *message.mutable_loss_report();
    report.set_reliable(reliable);
    report.set_fell_at(0.25);
    report.set_groups(100);
    report.set_lost(30);
    report.set_canaries(5);
    report.set_drift(0.125);
    for (size_t i = 0; i < wire::kDatagramFaults; ++i) report.add_dropped(i);
    for (size_t i = 0; i < wire::kSumsOutcomes; ++i) report.add_fragments(10 * i);
    return message;
  }

  TestSwarm swarm_;
  WorkerId hub_;
  RequestId request_;
};

class CoreNoLossesTest : public CoreLossesTest {
 protected:
  CoreNoLossesTest() : CoreLossesTest(false) {}
};

TEST_F(CoreLossesTest, HubsAreToldWhatTheyMayLoseAndAnswersSayWhatTheyDid) {
  const wire::pb::ServerMessage told = swarm_.Last(hub_, Kind::kExpertHolders);
  EXPECT_EQ(told.expert_holders().losses().limit(), 0.125);
  ASSERT_EQ(told.expert_holders().losses().norms_size(), 1);
  EXPECT_EQ(told.expert_holders().losses().norms(0).layer(), 2u);
  EXPECT_EQ(told.expert_holders().losses().norms(0).norms(3), 4);
  swarm_.Control(hub_, Lost(2));
  swarm_.AnswerStep(hub_);
  swarm_.Control(hub_, Lost(kGroups * kGroupedLayers));
  swarm_.AnswerStep(hub_);
  ASSERT_EQ(swarm_.Ends(request_).size(), 1u);
  EXPECT_EQ(swarm_.Ends(request_)[0].lost_groups, 2 + kGroups * kGroupedLayers);
  EXPECT_EQ(swarm_.picture().lost_groups, 2 + kGroups * kGroupedLayers);
}

TEST_F(CoreLossesTest, ReportsAreShown) {
  EXPECT_THAT(swarm_.picture().losses, IsEmpty());
  swarm_.Control(hub_, Report(true));
  ASSERT_EQ(swarm_.picture().losses.size(), 1u);
  const LossSnapshot losses = swarm_.picture().losses[0];
  EXPECT_EQ(losses.hub, hub_);
  EXPECT_EQ(losses.state, "reliable");
  EXPECT_THAT(losses.message, AllOf(HasSubstr("25.0%"), HasSubstr("12.5%")));
  EXPECT_EQ(losses.lost, 30u);
  EXPECT_EQ(losses.canaries, 5u);
  EXPECT_EQ(losses.drift, 0.125);
  EXPECT_EQ(losses.dropped.at(3).first, "type");
  EXPECT_EQ(losses.dropped.at(3).second, 3u);
  EXPECT_EQ(losses.fragments.at(4).first, "repeated");
}

TEST_F(CoreLossesTest, WhatCanariesMeasuredIsSaid) {
  wire::pb::WorkerMessage message = Report();
  message.mutable_loss_report()->add_lines()->set_ready(true);
  swarm_.Control(hub_, message);
  ASSERT_EQ(swarm_.picture().losses.size(), 1u);
  EXPECT_EQ(swarm_.picture().losses[0].state, "lossy");
  EXPECT_THAT(swarm_.picture().losses[0].message, HasSubstr("12.5% of the layers' sums"));
}

TEST_F(CoreLossesTest, WhatCannotBeEndsTheConnection) {
  const auto is_refused = [](const wire::pb::WorkerMessage& message, TestSwarm& swarm,
                             WorkerId hub) {
    swarm.Control(hub, message);
    return swarm.CloseReasons(hub).size() == 1;
  };
  wire::pb::WorkerMessage other_step = Lost(1), no_share = Report();
  other_step.mutable_groups_lost()->set_sequence(99);
  no_share.mutable_loss_report()->set_share(std::nan(""));
  wire::pb::WorkerMessage no_drift = Report();
  no_drift.mutable_loss_report()->set_drift(-1);
  wire::pb::WorkerMessage short_report = Report();
  short_report.mutable_loss_report()->clear_dropped();
  for (const auto& message : {Lost(kGroups * kGroupedLayers + 1), Lost(1, 7), other_step, no_share,
                              no_drift, short_report}) {
    TestSwarm swarm(Options(true));
    const WorkerId hub = swarm.Join(GroupWorker());
    swarm.Advance(Seconds(1));
    swarm.worker(hub).answer_steps = false;
    swarm.Submit({3, 4, 5}, 2);
    EXPECT_TRUE(is_refused(message, swarm, hub)) << message.ShortDebugString();
  }
}

TEST_F(CoreNoLossesTest, WhereNothingMayBeLostNobodyIsToldOrBelieved) {
  EXPECT_FALSE(swarm_.Last(hub_, Kind::kExpertHolders).expert_holders().has_losses());
  swarm_.AnswerStep(hub_);
  swarm_.AnswerStep(hub_);
  ASSERT_EQ(swarm_.Ends(request_).size(), 1u);
  EXPECT_EQ(swarm_.Ends(request_)[0].lost_groups, std::nullopt);
  swarm_.Control(hub_, Report());
  EXPECT_EQ(swarm_.CloseReasons(hub_).size(), 1u);
}

TEST(CoreGroups, WhatIsMissingIsCalledByItsName) {
  TestSwarm swarm(GroupOptions());
  swarm.Join(GroupWorker(3'000'000));
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_THAT(swarm.picture().message, HasSubstr("Of 16 neuron groups "));
}

// Three devices, each with room for the hub or for all groups. The hub moves to one that holds
// them, and the other one that does is lost meanwhile.
TEST(CoreGroups, AHubThatMovesLeavesRoomForTheLastHolder) {
  CoreOptions options = GroupOptions();
  options.model.hidden_columns = 1024;  // 1 MB of scratch memory
  TestSwarm swarm(options);
  const WorkerId hub = swarm.Join(GroupWorker(4'900'000));
  const WorkerId next = swarm.Join(GroupWorker(4'700'000));
  const WorkerId other = swarm.Join(GroupWorker(4'700'000));
  swarm.Advance(Seconds(30));
  ASSERT_EQ(swarm.picture().stages.at(0).worker, hub);
  ASSERT_EQ(GroupHolders(swarm, hub), (std::map<WorkerId, size_t>{{next, 16}, {other, 16}}));
  swarm.hold_plans = true;
  while (swarm.held_plans.empty()) swarm.Advance(Seconds(10));
  swarm.worker(next).answer_prepare = false;
  swarm.AnswerPlan({{next, {{0, 6}, LayerForm::kHub}}});
  ASSERT_EQ(GroupHolders(swarm, hub), (std::map<WorkerId, size_t>{{other, 16}}));
  swarm.Lose(other);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(GroupHolders(swarm, hub), (std::map<WorkerId, size_t>{{next, 16}}));
  EXPECT_EQ(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), Counting(6, 3));

  // Nor does it move to the only one that holds them.
  swarm.held_plans.clear();
  while (swarm.held_plans.empty()) swarm.Advance(Seconds(10));
  swarm.AnswerPlan({{next, {{0, 6}, LayerForm::kHub}}});
  EXPECT_EQ(GroupHolders(swarm, hub), (std::map<WorkerId, size_t>{{next, 16}}));
  EXPECT_EQ(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), Counting(6, 3));
}

TEST(CoreGroups, WhoDoesNotRunGroupsGetsNone) {
  TestSwarm swarm(GroupOptions());
  const WorkerId tab = swarm.Join(TabWithoutGroups());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, AllOf(HasSubstr("neuron groups"), HasSubstr("weft worker")));
  const WorkerId hub = swarm.Join(GroupWorker());
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_THAT(GroupHolders(swarm, hub), UnorderedElementsAre(Key(hub)));
  EXPECT_THAT(swarm.Sent(tab), Not(HasSubstr("hold_experts")));
  EXPECT_THAT(swarm.Sent(tab), Not(HasSubstr("measure_speed")));
}

// A layer takes 0.1 ms, less than a round trip, or 10 ms.
TEST(CoreGroups, WithAChoiceLayersAreDividedWhereTheyTakeLong) {
  for (const bool is_slow : {false, true}) {
    TestWorker worker = GroupWorker();
    worker.run_us = is_slow ? 10'000 : 100;
    TestSwarm swarm(GroupOptions(PlanKind::kAuto));
    const WorkerId first = swarm.Join(worker), second = swarm.Join(worker);
    swarm.Advance(Seconds(60));
    ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
    const bool is_first = !swarm.bindings(first).empty() && swarm.bindings(first)[0].loaded;
    const auto prepare = swarm.Last(is_first ? first : second, Kind::kPrepareStage).prepare_stage();
    EXPECT_EQ(prepare.is_hub(), is_slow);
    EXPECT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 3)), testing::ElementsAre(6, 7, 8));
  }
}

// Hubs are expected to wait for 4 ms at each of four layers, and wait for nearly 50.
TEST(CoreGroups, WithAChoiceLayersStayWholeWhereHubsWaitedLonger) {
  TestSwarm swarm(GroupOptions(PlanKind::kAuto));
  TestWorker slow = GroupWorker();
  slow.run_us = slow.compute_us = 10'000;
  const WorkerId first = swarm.Join(slow), second = swarm.Join(slow);
  const auto is_hub = [&](WorkerId id) {
    const auto& bindings = swarm.bindings(id);
    return std::ranges::any_of(bindings, [](const TestBinding& each) {
      return each.loaded && !each.standby && each.layers.is_hub();
    });
  };
  swarm.Advance(Seconds(60));
  ASSERT_TRUE(is_hub(first) != is_hub(second));
  const WorkerId hub = is_hub(first) ? first : second;
  swarm.worker(hub).answer_steps = false;
  const RequestId request = swarm.Submit({3, 4, 5}, 20);
  while (swarm.unanswered_steps(hub) > 0) {
    swarm.Advance(Milliseconds(200));
    swarm.AnswerStep(hub);
  }
  EXPECT_EQ(swarm.Tokens(request), Counting(6, 20));
  swarm.worker(hub).answer_steps = true;
  for (int i = 0; i < 5; ++i) {
    swarm.Advance(Seconds(30));
    EXPECT_FALSE(is_hub(first) || is_hub(second)) << i;
    EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  }
}

// Groups of 200 kB: 20 of them in 2 ms are 2 GB/s.
TEST(CoreGroups, HowFastAHolderIsItsAnswersSay) {
  TestSwarm swarm(GroupOptions());
  const WorkerId hub = swarm.Join(GroupWorker());
  swarm.Advance(Seconds(1));
  TestWorker silent = GroupWorker();
  silent.answer_measure = false;
  const WorkerId holder = swarm.Join(silent);
  swarm.Advance(Seconds(1));
  ASSERT_TRUE(GroupHolders(swarm, hub).contains(holder));
  const auto speed = [&] {
    for (const WorkerSnapshot& worker : swarm.picture().workers)
      if (worker.id == holder) return worker.speed_bytes_per_us;
    return 0.0;
  };
  const double assumed = speed();
  wire::pb::WorkerMessage message;
  auto& told = *message.mutable_holder_stats()->add_holders();
  told.set_peer(static_cast<uint32_t>(holder.value()));
  told.set_calls(20);
  told.set_computed_groups(20);
  told.set_computed_us(2000);
  EXPECT_NE(assumed, 2000);
  swarm.Control(hub, message);
  EXPECT_DOUBLE_EQ(speed(), 2000);
}

TEST(CoreGroups, EveryPlanThatCannotBeSaysWhatToDo) {
  ModelInfo dense = TestOptions().model, groups = GroupOptions().model, mixture = groups;
  for (ModelLayer& layer : mixture.layers) layer.groups = false;
  for (const ModelInfo* model : {&dense, &groups, &mixture})
    for (const PlanKind kind : {PlanKind::kAuto, PlanKind::kLayers})
      EXPECT_THAT(PlanProblem(*model, kind), IsEmpty());
  EXPECT_THAT(PlanProblem(groups, PlanKind::kTensor), IsEmpty());
  EXPECT_THAT(PlanProblem(mixture, PlanKind::kExperts), IsEmpty());
  EXPECT_THAT(PlanProblem(dense, PlanKind::kTensor), HasSubstr("weft groups"));
  EXPECT_THAT(PlanProblem(mixture, PlanKind::kTensor), HasSubstr("--plan experts is for"));
  EXPECT_THAT(PlanProblem(groups, PlanKind::kExperts), HasSubstr("--plan tensor is for"));
  EXPECT_THAT(PlanProblem(dense, PlanKind::kExperts), HasSubstr("has none"));
}

}  // namespace
}  // namespace weft::swarm
