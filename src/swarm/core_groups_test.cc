// Plans of hubs for models in neuron groups: who takes part, who goes on when somebody is lost, and
// which plans there are for which models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "swarm/core_testing.h"
#include "swarm/exchange_costs.h"
#include "wire/expert_sets.h"

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
    size_t& count = holders[holder.peer()];
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

TEST(CoreGroups, WhatIsMissingIsCalledByItsName) {
  TestSwarm swarm(GroupOptions());
  swarm.Join(GroupWorker(3'000'000));
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.picture().state, SwarmState::kPreparing);
  EXPECT_THAT(swarm.picture().message, HasSubstr("Of 16 neuron groups "));
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

TEST(CoreGroups, WithAChoiceLayersStayWhole) {
  TestSwarm swarm(GroupOptions(PlanKind::kAuto));
  const WorkerId id = swarm.Join(GroupWorker());
  swarm.Join(GroupWorker());
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  EXPECT_FALSE(swarm.Last(id, Kind::kPrepareStage).prepare_stage().shards());
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
