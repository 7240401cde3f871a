// What a hub tells of those who hold experts for it. What else it does is in
// tests/conformance/membership.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/expert_testing.h"
#include "worker/membership_testing.h"

namespace weft::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kHolder = 5;

Offer CanBeHub() {
  Offer offer;
  offer.can_be_hub = offer.takes_experts = true;
  return offer;
}

class MembershipHubTest : public MembershipTest {
 protected:
  explicit MembershipHubTest(Offer offer = CanBeHub()) : MembershipTest(std::move(offer)) {}

  // A hub of all layers.
  void Hub(uint32_t binding = 1) {
    pb::ServerMessage message = PrepareMessage(binding, 0, kTestLayers);
    message.mutable_prepare_stage()->set_is_hub(true);
    ASSERT_THAT(Told(message), ElementsAre("FETCH HUBS 0 1 2 3 4 5"));
    ASSERT_THAT(FetchOver(), ElementsAre("READ HUBS 0-6"));
    Read();
    WorkOver(Installed{1, 100});
  }
  // Who holds expert 0 of layer 1.
  Said Holders(std::vector<uint32_t> peers, uint32_t self = 0) {
    pb::ServerMessage message;
    auto& statement = *message.mutable_expert_holders();
    statement.set_statement(++statement_);
    statement.set_self(self);
    statement.set_stats_ms(stats_ms_);
    for (const uint32_t peer : peers) {
      auto& holder = *statement.add_holders();
      holder.set_peer(peer);
      wire::FillExpertSets({{1, {0}}}, *holder.mutable_sets());
    }
    return Told(message);
  }
  // The step that computes wants one row of expert 0.
  Said Waits() { return WorkOver(StepWaits{1, 1, 1, {1.0f}, {0}}); }
  Said Result(uint32_t sequence, uint32_t peer = kHolder) {
    wire::ExpertFrame frame = Dispatch(sequence, 1, 0);
    frame.type = wire::ExpertFrameType::kResult;
    return Shards(peer, {frame});
  }
  Said Shards(uint32_t peer, const std::vector<wire::ExpertFrame>& frames) {
    std::vector<uint8_t> bytes;
    for (const Slice& piece : wire::EncodeShardMessage(peer, frames))
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    return Told(std::move(bytes));
  }
  // A token whose row is answered in a millisecond.
  void Token(uint32_t sequence) {
    Step(sequence, 1, 1, sequence - 1);
    Waits();
    now_ = now_ + Milliseconds(1);
    Result(sequence);
    WorkOver(StepReply{});
  }
  // What is said of holders behind a Pong.
  std::vector<pb::HolderStats::Holder> Stats(Duration later) {
    now_ = now_ + later;
    pb::ServerMessage ping;
    ping.mutable_ping()->set_nonce(7);
    Told(ping);
    std::vector<pb::HolderStats::Holder> stats;
    for (const Action& action : actions_)
      if (const auto* sent = std::get_if<SendControl>(&action))
        for (const auto& holder : sent->message.holder_stats().holders()) stats.push_back(holder);
    return stats;
  }
  void Start() {
    Join();
    Hub();
    Holders({kHolder});
  }

  uint32_t statement_ = 0, stats_ms_ = 0;
};

TEST_F(MembershipHubTest, WhoWantsToKnowWhatHoldersDidIsTold) {
  stats_ms_ = 1000;
  Start();
  EXPECT_THAT(Stats(Seconds(1)), IsEmpty()) << "nothing yet";
  Token(1);
  Token(2);
  const auto told = Stats({});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].peer(), kHolder);
  EXPECT_EQ(told[0].calls(), 2u);
  EXPECT_EQ(told[0].rows(), 2u);
  EXPECT_EQ(told[0].wins(), 2u);
  EXPECT_EQ(told[0].hedges() + told[0].losses() + told[0].refused() + told[0].timeouts(), 0u);
  EXPECT_EQ(told[0].sent_bytes(), 8u);
  EXPECT_EQ(told[0].received_bytes(), 8u);
  EXPECT_EQ(told[0].p50_us(), 1000u);
  EXPECT_EQ(told[0].slowest_us(), 1000u);
  Token(3);
  EXPECT_THAT(Stats(Milliseconds(998)), IsEmpty()) << "not as soon as that";
  // What a holder did before it had nothing any more is told, and counts once if it comes again.
  Holders({9});
  EXPECT_EQ(Stats(Milliseconds(1)).at(0).calls(), 1u);
  Holders({kHolder});
  EXPECT_THAT(Stats(Seconds(1)), IsEmpty());
  Token(4);
  EXPECT_EQ(Stats(Seconds(1)).at(0).calls(), 1u);
}

TEST_F(MembershipHubTest, AndHowLongTheyComputedNeuronGroups) {
  stats_ms_ = 1000;
  Start();
  Step(1, 1);
  StepWaits waits{1, 1, 1, {1.0f}, {0}};
  waits.kind = SlotKind::kSums;
  WorkOver(std::move(waits));
  wire::ExpertFrame sum = Dispatch(1, 1, 0);
  sum.type = wire::ExpertFrameType::kResult;
  wire::Heartbeat heartbeat;
  heartbeat.compute_us = 700;
  Shards(kHolder, {sum, wire::HeartbeatFrame(heartbeat)});
  const auto told = Stats(Seconds(1));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].computed_groups(), 1u);
  EXPECT_EQ(told[0].computed_us(), 700u);
}

TEST_F(MembershipHubTest, AndWhatRowsHaveChosen) {
  stats_ms_ = 1000;
  Start();
  Step(1, 1);
  WorkOver(StepWaits{1, 1, 2, {1.0f}, {3, 0}});
  Stats(Seconds(1));
  pb::HolderStats told;
  for (const Action& action : actions_)
    if (const auto* sent = std::get_if<SendControl>(&action))
      told.MergeFrom(sent->message.holder_stats());
  ASSERT_EQ(told.routes_size(), 1);
  EXPECT_EQ(told.routes(0).layer(), 1u);
  EXPECT_THAT(told.routes(0).times(), ElementsAre(1, 0, 0, 1));
}

TEST_F(MembershipHubTest, AServerThatDoesNotAskHearsNothingOfHolders) {
  Start();
  Token(1);
  EXPECT_THAT(Stats(Seconds(5)), IsEmpty());
}

}  // namespace
}  // namespace weft::worker
