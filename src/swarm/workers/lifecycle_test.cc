// The life of plans apart from the rest of the core: who is put into a hole, what goes to make
// room, and what is said to whom. Workers here are entries of a roster.
#include "swarm/workers/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {

// Steps are the pipeline's, limits the members': the tests put in what those would.
struct OwnedTesting {
  template <typename T, typename Owner>
  static T& Edit(Owned<T, Owner>& owned) {
    return owned.edit();
  }
};
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Stages = std::vector<std::pair<WorkerId, LayerSpan>>;

class LifecycleTest : public testing::Test {
 protected:
  // Room for so many layers of a megabyte.
  Worker& Add(WorkerId id, uint32_t layers) {
    Worker& worker = roster_.Add(id);
    worker.id = id;
    worker.ready = true;
    worker.offer.download_bytes_per_s = 1e9;
    worker.offer.memory_bytes = layers * kTestLayerBytes + 500'000;
    OwnedTesting::Edit(worker.limit).bytes = worker.offer.memory_bytes;
    lifecycle_.OnConnected(worker);
    return worker;
  }
  static SwarmPlan PlanOf(const Stages& stages) {
    SwarmPlan plan;
    for (const auto& [worker, layers] : stages)
      plan.stages.push_back({worker, layers.first, layers.end});
    return plan;
  }
  Status Answer(WorkerId id, BindingId binding, double factor = 1) {
    wire::pb::Prepared prepared;
    prepared.set_binding(binding.value());
    prepared.set_weight_factor(factor);
    return lifecycle_.OnPrepared(*roster_.Find(id), prepared, now_);
  }
  // Everybody has loaded what was asked.
  void Load() {
    for (auto& [id, worker] : roster_)
      for (const Binding& binding : std::vector(*worker.bindings))
        EXPECT_TRUE(binding.loaded || Answer(id, binding.id).ok());
  }
  void Serve(const Stages& stages) {
    lifecycle_.Stage(PlanOf(stages), now_);
    Load();
    ASSERT_TRUE(lifecycle_.CanSwap());
    lifecycle_.Swap(now_);
    outbox_.Take();
  }
  void StandBy(WorkerId id, LayerSpan layers) {
    EXPECT_TRUE(lifecycle_.StandBy(*roster_.Find(id), layers, now_));
    Load();
    outbox_.Take();
  }
  void Lose(WorkerId id) {
    roster_.Remove(id);
    lifecycle_.OnWorkerGone(id, now_);
  }
  static Stages StagesOf(const SwarmPlan* plan) {
    Stages stages;
    if (plan == nullptr) return stages;
    for (const PlanStage& stage : plan->stages) stages.emplace_back(stage.worker, stage.layers());
    return stages;
  }
  Stages Active() const { return StagesOf(lifecycle_.active()); }
  // What was said since the last call: "2: release; 2: prepare [0,2)".
  std::string Said() {
    std::string said;
    for (const Action& action : outbox_.Take()) {
      const auto* control = std::get_if<SendControl>(&action);
      if (control == nullptr) continue;
      said += (said.empty() ? "" : "; ") + ToString(control->worker) + ": ";
      if (control->message.has_release()) said += "release";
      if (control->message.has_download_layers()) said += "download";
      if (control->message.has_prepare_stage()) {
        said += control->message.prepare_stage().standby() ? "stand by " : "prepare ";
        said += Text(control->message.prepare_stage().layers());
      }
      if (control->message.has_retire()) {
        said += "keep";
        for (const auto& range : control->message.retire().keep()) said += " " + Text(range);
      }
    }
    return said;
  }
  static std::string Text(const wire::pb::LayerRange& range) {
    return "[" + std::to_string(range.first()) + "," + std::to_string(range.end()) + ")";
  }

  const CoreOptions options_ = TestOptions();
  const Costs costs_{options_};
  Roster roster_;
  Changes changes_;
  Outbox outbox_;
  Lifecycle lifecycle_{options_, costs_, roster_, changes_, outbox_};
  Instant now_{1'000'000};
};

TEST_F(LifecycleTest, ALossMakesAHoleAndNothingElse) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(3)}) Add(id, 2);
  Serve({{1, {0, 2}}, {2, {2, 4}}, {3, {4, 6}}});
  const SwarmPlan before = *lifecycle_.active();
  EXPECT_TRUE(lifecycle_.serves());
  Lose(2);
  EXPECT_FALSE(lifecycle_.serves());
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(1), LayerSpan{0, 2}),
                                    std::pair(WorkerId(0), LayerSpan{2, 4}),
                                    std::pair(WorkerId(3), LayerSpan{4, 6})));
  EXPECT_EQ(lifecycle_.active()->stages[0].binding, before.stages[0].binding);
  EXPECT_EQ(lifecycle_.active()->stages[2].binding, before.stages[2].binding);
  EXPECT_EQ(Said(), "");
}

TEST_F(LifecycleTest, WithoutAnyStageThereIsNoPlan) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  Lose(1);
  EXPECT_NE(lifecycle_.active(), nullptr);
  Lose(2);
  EXPECT_EQ(lifecycle_.active(), nullptr);
}

// ---- standbys ----

TEST_F(LifecycleTest, AStandbyOfTheRangeTakesOverWithoutAWord) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 3);
  Add(4, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 3});
  EXPECT_THAT(lifecycle_.Followers(), SizeIs(1));
  const BindingId binding = roster_.Find(4)->bindings->front().id;
  Lose(1);
  EXPECT_TRUE(lifecycle_.serves());
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(4), LayerSpan{0, 3}),
                                    std::pair(WorkerId(2), LayerSpan{3, 6})));
  EXPECT_EQ(lifecycle_.active()->stages[0].binding, binding);
  EXPECT_FALSE(roster_.Find(4)->bindings->front().standby);
  EXPECT_THAT(lifecycle_.Followers(), IsEmpty());
  EXPECT_EQ(Said(), "");
}

TEST_F(LifecycleTest, StandbysThatTileTheHoleTakeOverTogether) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(4), WorkerId(5)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {1, 3});
  StandBy(5, {0, 1});
  Lose(1);
  EXPECT_TRUE(lifecycle_.serves());
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(5), LayerSpan{0, 1}),
                                    std::pair(WorkerId(4), LayerSpan{1, 3}),
                                    std::pair(WorkerId(2), LayerSpan{3, 6})));
  EXPECT_EQ(Said(), "");
}

TEST_F(LifecycleTest, APartOfTheHoleIsNotFilled) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(4), WorkerId(5)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 2});
  StandBy(5, {1, 3});  // they overlap
  Lose(1);
  EXPECT_FALSE(lifecycle_.serves());
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(0), LayerSpan{0, 3}),
                                    std::pair(WorkerId(2), LayerSpan{3, 6})));
  EXPECT_TRUE(roster_.Find(4)->bindings->front().standby);
}

TEST_F(LifecycleTest, OneThatReachesFurtherIsPreferred) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(4), WorkerId(5), WorkerId(6)})
    Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 1});
  StandBy(5, {1, 3});
  StandBy(6, {0, 3});
  Lose(1);
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(6), LayerSpan{0, 3}),
                                    std::pair(WorkerId(2), LayerSpan{3, 6})));
}

TEST_F(LifecycleTest, OneThatServesAlreadyComesLast) {
  Add(1, 3);
  Add(2, 6);
  Add(4, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(2, {0, 3});
  EXPECT_THAT(lifecycle_.Followers(), IsEmpty()) << "it has its own stage to compute";
  StandBy(4, {0, 3});
  Lose(1);
  EXPECT_EQ(Active()[0].first, WorkerId(4));
  Lose(4);
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(2), LayerSpan{0, 3}),
                                    std::pair(WorkerId(2), LayerSpan{3, 6})));
  Lose(2);
  EXPECT_EQ(lifecycle_.active(), nullptr) << "both stages were its";
}

TEST_F(LifecycleTest, OneThatStillLoadsIsNotReady) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(4)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  EXPECT_TRUE(lifecycle_.StandBy(*roster_.Find(4), {0, 3}, now_));
  EXPECT_EQ(Said(), "4: stand by [0,3)");
  Lose(1);
  EXPECT_FALSE(lifecycle_.serves());
}

// The two stages were lost one after the other: the first loss left a hole that nobody fitted.
TEST_F(LifecycleTest, NeighbouringHolesAreFilledByOneWhoHoldsBoth) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(3)}) Add(id, 2);
  Add(4, 4);
  Serve({{1, {0, 2}}, {2, {2, 4}}, {3, {4, 6}}});
  StandBy(4, {0, 4});
  Lose(2);
  EXPECT_FALSE(lifecycle_.serves());
  Lose(1);
  EXPECT_TRUE(lifecycle_.serves());
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(4), LayerSpan{0, 4}),
                                    std::pair(WorkerId(3), LayerSpan{4, 6})));
}

// It has failed too often, is still connected and has its layers loaded.
TEST_F(LifecycleTest, AWorkerThatMustNotBeUsedIsNotItsOwnReplacement) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  lifecycle_.OnWorkerGone(1, now_);
  EXPECT_FALSE(lifecycle_.serves());
  EXPECT_EQ(Active()[0].first, WorkerId(0));
  EXPECT_EQ(Said(), "1: release");
}

// ---- room ----

TEST_F(LifecycleTest, AStandbyIsHeldOnlyWhereItFits) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 3);
  Add(4, 5);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 3});
  EXPECT_FALSE(lifecycle_.StandBy(*roster_.Find(4), {3, 6}, now_));
  EXPECT_EQ(Said(), "");
  EXPECT_TRUE(lifecycle_.StandBy(*roster_.Find(4), {0, 3}, now_)) << "it has them already";
  EXPECT_EQ(Said(), "");
}

TEST_F(LifecycleTest, AStandbyMakesRoomForAStage) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(4)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 3});
  Lose(2);
  lifecycle_.Stage(PlanOf({{1, {0, 3}}, {4, {3, 6}}}), now_);
  EXPECT_EQ(Said(), "4: release; 4: prepare [3,6)");
  Load();
  lifecycle_.Swap(now_);
  EXPECT_TRUE(lifecycle_.serves());
  EXPECT_EQ(Said(), "") << "worker 1 goes on as it is";
}

TEST_F(LifecycleTest, AStandbyThatFitsBesideAStageStays) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 3);
  Add(4, 6);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 3});
  Lose(2);
  lifecycle_.Stage(PlanOf({{1, {0, 3}}, {4, {3, 6}}}), now_);
  EXPECT_EQ(Said(), "4: prepare [3,6)");
  Load();
  lifecycle_.Swap(now_);
  EXPECT_EQ(Said(), "");
  Lose(1);
  EXPECT_TRUE(lifecycle_.serves()) << "it had both";
}

TEST_F(LifecycleTest, StandbysThatNobodyWantsAnyMoreAreDropped) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 3);
  Add(4, 6);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 2});
  StandBy(4, {3, 6});
  lifecycle_.KeepStandbys(*roster_.Find(4), [](LayerSpan layers) { return layers.end == 6; });
  EXPECT_EQ(Said(), "4: keep [3,6)");
  lifecycle_.KeepStandbys(*roster_.Find(4), [](LayerSpan) { return false; });
  EXPECT_EQ(Said(), "4: release");
}

// The layers take more than was thought: what nobody counts on goes first, and the plan stays.
TEST_F(LifecycleTest, AGreaterWeightFactorCostsStandbysBeforePlans) {
  Add(1, 6);
  Add(4, 5);
  Serve({{1, {0, 6}}});
  StandBy(4, {0, 2});
  lifecycle_.Stage(PlanOf({{1, {0, 3}}, {4, {3, 6}}}), now_);
  EXPECT_EQ(Said(), "1: prepare [0,3); 4: prepare [3,6)");
  EXPECT_TRUE(Answer(1, *roster_.Find(1)->newest_binding).ok());
  EXPECT_TRUE(Answer(4, *roster_.Find(4)->newest_binding, 1.5).ok());
  EXPECT_EQ(Said(), "4: keep [3,6)");
  EXPECT_NE(lifecycle_.staged(), nullptr);
  EXPECT_TRUE(lifecycle_.CanSwap());
}

// Loading goes on beside the plan where both fit; what is over is let go with the swap.
TEST_F(LifecycleTest, OldAndNewLayersAreHeldTogetherWhereTheyFit) {
  Add(1, 6);
  Add(2, 3);
  Serve({{1, {0, 6}}});
  lifecycle_.Stage(PlanOf({{1, {0, 3}}, {2, {3, 6}}}), now_);
  EXPECT_EQ(Said(), "1: prepare [0,3); 2: prepare [3,6)");
  Load();
  EXPECT_TRUE(lifecycle_.serves());
  lifecycle_.Swap(now_);
  EXPECT_EQ(Said(), "1: keep [0,3)");
}

TEST_F(LifecycleTest, WhereTheyDoNotTheActivePlanGivesWayWhenTheLayersAreThere) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(3)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  lifecycle_.Stage(PlanOf({{2, {0, 3}}, {3, {3, 6}}}), now_);
  EXPECT_EQ(Said(), "2: download; 3: download");
  EXPECT_TRUE(lifecycle_.serves());
  for (uint32_t layer = 0; layer < 6; ++layer) {
    OwnedTesting::Edit(roster_.Find(2)->layers).cached.Add(layer);
    OwnedTesting::Edit(roster_.Find(3)->layers).cached.Add(layer);
  }
  lifecycle_.OnDownload(now_);
  EXPECT_EQ(Said(), "2: release; 2: prepare [0,3); 3: prepare [3,6)");
  EXPECT_FALSE(lifecycle_.serves());
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(1), LayerSpan{0, 3}),
                                    std::pair(WorkerId(0), LayerSpan{3, 6})));
  Load();
  lifecycle_.Swap(now_);
  EXPECT_EQ(Said(), "1: release");
  EXPECT_TRUE(lifecycle_.serves());
}

TEST_F(LifecycleTest, ADroppedPlanIsUnloadedOnlyWhereAnotherOneServes) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(3)}) Add(id, 6);
  lifecycle_.Stage(PlanOf({{1, {0, 3}}, {2, {3, 6}}}), now_);
  Said();
  lifecycle_.DropStaged(now_);
  EXPECT_EQ(Said(), "") << "the next plan is likely to want the same";
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  lifecycle_.Stage(PlanOf({{3, {0, 6}}}), now_);
  EXPECT_EQ(Said(), "3: prepare [0,6)");
  lifecycle_.DropStaged(now_);
  EXPECT_EQ(Said(), "3: release");
  EXPECT_TRUE(lifecycle_.serves());
}

TEST_F(LifecycleTest, BindingsRiseAndAreNeverUsedTwice) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 6);
  BindingId last;
  for (int i = 0; i < 3; ++i) {
    lifecycle_.Stage(PlanOf({{1, {0, 3}}, {2, {3, 6}}}), now_);
    for (const WorkerId id : {WorkerId(1), WorkerId(2)})
      for (const Binding& binding : *roster_.Find(id)->bindings) {
        EXPECT_GT(binding.id, last);
        last = binding.id;
      }
    Load();
    lifecycle_.Swap(now_);
    for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Lose(id);
    for (const WorkerId id : {WorkerId(1), WorkerId(2)}) Add(id, 6);
  }
}

// ---- relief ----

TEST_F(LifecycleTest, AStandbyRelievesOneThatIsLateAndTheyChangePlaces) {
  for (const WorkerId id : {WorkerId(1), WorkerId(2), WorkerId(4)}) Add(id, 3);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(4, {0, 3});
  EXPECT_FALSE(lifecycle_.Relieve(2)) << "nobody stands by with its layers";
  EXPECT_TRUE(lifecycle_.Relieve(1));
  EXPECT_THAT(Active(), ElementsAre(std::pair(WorkerId(4), LayerSpan{0, 3}),
                                    std::pair(WorkerId(2), LayerSpan{3, 6})));
  EXPECT_TRUE(roster_.Find(1)->bindings->front().standby);
  EXPECT_EQ(Said(), "");
  EXPECT_TRUE(lifecycle_.Relieve(4));
  EXPECT_EQ(Active()[0].first, WorkerId(1));
}

TEST_F(LifecycleTest, OneThatIsLateOrLoadingOrServesRelievesNobody) {
  for (const WorkerId id : {WorkerId(1), WorkerId(4)}) Add(id, 3);
  Add(2, 6);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  StandBy(2, {0, 3});
  EXPECT_FALSE(lifecycle_.Relieve(1));
  EXPECT_TRUE(lifecycle_.StandBy(*roster_.Find(4), {0, 3}, now_));
  EXPECT_FALSE(lifecycle_.Relieve(1));
  Load();
  OwnedTesting::Edit(roster_.Find(4)->steps).in_flight.emplace_back().was_late = true;
  EXPECT_FALSE(lifecycle_.Relieve(1));
  OwnedTesting::Edit(roster_.Find(4)->steps).in_flight.front().was_late = false;
  EXPECT_TRUE(lifecycle_.Relieve(1));
}

TEST_F(LifecycleTest, OneThatIsIdleRelievesRatherThanOneThatIsFed) {
  for (const WorkerId id : {WorkerId(1), WorkerId(4), WorkerId(5)}) Add(id, 3);
  Add(2, 6);
  Serve({{1, {0, 3}}, {2, {3, 6}}});
  for (const WorkerId id : {WorkerId(4), WorkerId(5)}) StandBy(id, {0, 3});
  OwnedTesting::Edit(roster_.Find(4)->steps).in_flight.emplace_back();
  EXPECT_TRUE(lifecycle_.Relieve(1));
  EXPECT_EQ(Active()[0].first, WorkerId(5));
}

}  // namespace
}  // namespace weft::swarm
