// What hubs tell of the holders of experts, and what becomes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"
#include "wire/holder_stats.h"

namespace weft::swarm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using Kind = wire::pb::ServerMessage::KindCase;
using HolderTold = wire::pb::HolderStats::Holder;

CoreOptions ExpertOptions() {
  CoreOptions options = TestOptions();
  options.plan_kind = PlanKind::kExperts;
  for (uint32_t layer = 1; layer <= 4; ++layer) {
    ModelLayer& costs = options.model.layers[layer];
    costs.expert_count = 4;
    costs.experts_per_token = 1;
    costs.expert_bytes = 200'000;
  }
  return options;
}

class CoreHoldersTest : public testing::Test {
 protected:
  CoreHoldersTest() : swarm_(ExpertOptions()) {
    hub_ = swarm_.Join(Hub());
    holder_ = swarm_.Join(Holder());
    other_ = swarm_.Join(Holder());
    swarm_.Advance(Seconds(1));
  }
  static TestWorker Hub() {
    TestWorker worker;
    worker.memory_bytes = 3'000'000;
    worker.can_be_hub = true;
    return worker;
  }
  static TestWorker Holder() {
    TestWorker worker;
    worker.kind = "web";
    worker.engine = "webgpu";
    worker.takes_experts = true;
    return worker;
  }
  // Seven calls of three rows each, two of them hedges.
  static HolderTold Of(WorkerId holder) {
    HolderTold told;
    told.set_peer(static_cast<uint32_t>(holder.value()));
    told.set_calls(7);
    told.set_rows(21);
    told.set_hedges(2);
    told.set_wins(5);
    told.set_losses(2);
    told.set_won_hedges(1);
    told.set_lost_hedges(1);
    told.set_timeouts(1);
    told.set_refused(3);
    told.set_sent_bytes(1000);
    told.set_received_bytes(2000);
    told.set_p50_us(4000);
    told.set_slowest_us(90'000);
    told.set_queue_us(500);
    return told;
  }
  void Tell(WorkerId hub, const std::vector<HolderTold>& told) {
    wire::pb::WorkerMessage message;
    message.mutable_holder_stats();
    for (const HolderTold& each : told) *message.mutable_holder_stats()->add_holders() = each;
    swarm_.Control(hub, message);
  }
  std::optional<HolderSnapshot> Picture(WorkerId id) const {
    for (const WorkerSnapshot& worker : swarm_.picture().workers)
      if (worker.id == id) return worker.holder;
    return std::nullopt;
  }

  TestSwarm swarm_;
  WorkerId hub_ = 0, holder_ = 0, other_ = 0;
};

TEST_F(CoreHoldersTest, HubsAreAskedToTell) {
  EXPECT_EQ(swarm_.Last(hub_, Kind::kExpertHolders).expert_holders().stats_ms(), 1000u);
  EXPECT_FALSE(Picture(holder_));
}

TEST_F(CoreHoldersTest, WhatIsToldAddsUpAndTimesAreTheLastOnes) {
  Tell(hub_, {Of(holder_)});
  HolderTold again = Of(holder_);
  again.set_p50_us(5000);
  Tell(hub_, {again});
  const HolderSnapshot picture = Picture(holder_).value();
  EXPECT_EQ(picture.counts.calls, 14u);
  EXPECT_EQ(picture.counts.rows, 42u);
  EXPECT_EQ(picture.counts.hedges, 4u);
  EXPECT_EQ(picture.counts.wins, 10u);
  EXPECT_EQ(picture.counts.losses, 4u);
  EXPECT_EQ(picture.counts.won_hedges, 2u);
  EXPECT_EQ(picture.counts.lost_hedges, 2u);
  EXPECT_EQ(picture.counts.timeouts, 2u);
  EXPECT_EQ(picture.counts.refused, 6u);
  EXPECT_EQ(picture.counts.sent_bytes, 2000u);
  EXPECT_EQ(picture.counts.received_bytes, 4000u);
  EXPECT_EQ(picture.times.p50_ms, 5);
  EXPECT_EQ(picture.times.slowest_ms, 90);
  EXPECT_EQ(picture.times.queue_ms, 0.5);
  EXPECT_FALSE(Picture(other_));
}

TEST_F(CoreHoldersTest, AHubThatTakesOverGoesOnCounting) {
  Tell(hub_, {Of(holder_)});
  swarm_.Lose(hub_);
  EXPECT_EQ(Picture(holder_)->counts.calls, 7u);
  EXPECT_EQ(Picture(holder_)->times.p50_ms, 0) << "as it was for somebody who asks nobody now";
  const WorkerId next = swarm_.Join(Hub());
  swarm_.Advance(Seconds(1));
  ASSERT_EQ(swarm_.picture().state, SwarmState::kUp);
  Tell(next, {Of(holder_)});
  EXPECT_EQ(Picture(holder_)->counts.calls, 14u);
  EXPECT_EQ(Picture(holder_)->times.p50_ms, 4);
}

TEST_F(CoreHoldersTest, OfOthersNothingIsBelieved) {
  Tell(hub_, {Of(hub_), Of(holder_), Of(999)});
  EXPECT_THAT(swarm_.CloseReasons(hub_), IsEmpty());
  EXPECT_FALSE(Picture(hub_)) << "it holds no experts";
  EXPECT_TRUE(Picture(holder_));
  Tell(holder_, {Of(other_)});
  ASSERT_EQ(swarm_.CloseReasons(holder_).size(), 1u);
  EXPECT_THAT(swarm_.CloseReasons(holder_)[0], HasSubstr("never was a hub"));
}

TEST_F(CoreHoldersTest, WhatCannotBeEndsTheConnection) {
  struct Case {
    const char* reason;
    void (*spoil)(HolderTold&);
  };
  const Case cases[] = {
      {"beyond 2^40", [](HolderTold& told) { told.set_sent_bytes(wire::kMostHolderCount + 1); }},
      {"beyond 2^40", [](HolderTold& told) { told.set_calls(UINT64_MAX); }},
      {"more hedges than calls", [](HolderTold& told) { told.set_hedges(8); }},
      {"more hedges won", [](HolderTold& told) { told.set_won_hedges(6); }},
      {"more hedges lost", [](HolderTold& told) { told.set_lost_hedges(3); }},
      {"beyond a minute", [](HolderTold& told) { told.set_queue_us(wire::kMostHolderUs + 1); }},
      {"beyond the slowest", [](HolderTold& told) { told.set_p50_us(90'001); }},
  };
  for (const Case& each : cases) {
    const WorkerId hub = swarm_.picture().stages.at(0).worker;
    HolderTold told = Of(holder_);
    each.spoil(told);
    Tell(hub, {told});
    ASSERT_EQ(swarm_.CloseReasons(hub).size(), 1u) << each.reason;
    EXPECT_THAT(swarm_.CloseReasons(hub)[0], HasSubstr(each.reason));
    EXPECT_FALSE(Picture(holder_)) << each.reason;
    swarm_.Join(Hub());
    swarm_.Advance(Seconds(1));
  }
}

// Of layer 1, so many rows, expert 2 by every second one, the others by the rest.
wire::pb::WorkerMessage Routes(uint32_t rows, uint32_t layer = 1) {
  wire::pb::WorkerMessage message;
  auto& routes = *message.mutable_holder_stats()->add_routes();
  routes.set_layer(layer);
  for (const uint32_t times : {rows / 8, rows / 8, rows * 5 / 8, rows / 8}) routes.add_times(times);
  return message;
}

TEST_F(CoreHoldersTest, WhatIsChosenOftenGetsOneHolderMore) {
  const WorkerId third = swarm_.Join(Holder());
  swarm_.Advance(Seconds(1));
  const auto holders_of = [&](uint32_t layer, uint32_t expert) {
    int count = 0;
    const wire::pb::ServerMessage told = swarm_.Last(hub_, Kind::kExpertHolders);
    for (const auto& holder : told.expert_holders().holders())
      for (const auto& set : holder.sets())
        count += set.layer() == layer && (set.experts()[0] >> expert & 1);
    return count;
  };
  ASSERT_EQ(holders_of(1, 2), 2);
  swarm_.Control(hub_, Routes(8000));
  EXPECT_EQ(holders_of(1, 2), 2) << "not at once";
  swarm_.Advance(Seconds(301));
  swarm_.Control(hub_, Routes(8000));
  EXPECT_EQ(holders_of(1, 2), 3);
  EXPECT_EQ(holders_of(1, 1), 2);
  EXPECT_EQ(holders_of(2, 2), 2);
  EXPECT_EQ(swarm_.picture().state, SwarmState::kUp);
  // Another start knows it.
  const Placement placement = swarm_.core().placement();
  ASSERT_EQ(placement.popularity.size(), 1u);
  EXPECT_EQ(placement.popularity[0].layer, 1u);
  EXPECT_GT(placement.popularity[0].counts[2], 3 * placement.popularity[0].counts[1]);
  swarm_.Restart([&](CoreOptions& options) { options.popularity = placement.popularity; });
  hub_ = swarm_.Join(Hub());
  for (int i = 0; i < 3; ++i) swarm_.Join(Holder());
  swarm_.Advance(Seconds(30));
  EXPECT_EQ(holders_of(1, 2), 3);
  EXPECT_EQ(holders_of(1, 1), 2);
  (void)third;
}

TEST_F(CoreHoldersTest, RoutesThatCannotBeEndTheConnection) {
  wire::pb::WorkerMessage many = Routes(8), twice = Routes(8);
  many.mutable_holder_stats()->mutable_routes(0)->add_times(1);
  *twice.mutable_holder_stats()->add_routes() = twice.holder_stats().routes(0);
  for (const auto& message : {many, twice, Routes(8, 0), Routes(8, 99)}) {
    const WorkerId hub = swarm_.picture().stages.at(0).worker;
    swarm_.Control(hub, message);
    ASSERT_EQ(swarm_.CloseReasons(hub).size(), 1u) << message.ShortDebugString();
    EXPECT_THAT(swarm_.CloseReasons(hub)[0], HasSubstr("routes"));
    swarm_.Join(Hub());
    swarm_.Advance(Seconds(1));
  }
}

TEST_F(CoreHoldersTest, HoldersAreNamedOnceAndNotWithoutEnd) {
  Tell(hub_, {Of(holder_), Of(holder_)});
  ASSERT_EQ(swarm_.CloseReasons(hub_).size(), 1u);
  EXPECT_THAT(swarm_.CloseReasons(hub_)[0], HasSubstr("rising"));
  const WorkerId next = swarm_.Join(Hub());
  swarm_.Advance(Seconds(1));
  std::vector<HolderTold> many;
  for (WorkerId id = 1; id.value() <= TestOptions().worker_limit + 1; ++id) many.push_back(Of(id));
  Tell(next, many);
  ASSERT_EQ(swarm_.CloseReasons(next).size(), 1u);
  EXPECT_THAT(swarm_.CloseReasons(next)[0], HasSubstr("at most 256"));
}

}  // namespace
}  // namespace weft::swarm
