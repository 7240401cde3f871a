// Membership of a worker that holds experts for hubs: what it loads, computes, refuses and answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/tensor_channel.h"
#include "worker/expert_testing.h"
#include "worker/membership_testing.h"

namespace weft::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Offer TakesExperts() {
  Offer offer;
  offer.takes_experts = true;
  return offer;
}

pb::ServerMessage Hold(uint32_t epoch, const std::vector<wire::LayerExperts>& sets) {
  pb::ServerMessage message;
  message.mutable_hold_experts()->set_epoch(epoch);
  wire::FillExpertSets(sets, *message.mutable_hold_experts()->mutable_sets());
  return message;
}

class MembershipShardsTest : public MembershipTest {
 protected:
  explicit MembershipShardsTest(Offer offer = TakesExperts()) : MembershipTest(std::move(offer)) {}
  Said Shards(uint32_t hub, const std::vector<wire::ExpertFrame>& frames) {
    std::vector<uint8_t> bytes;
    for (const Slice& piece : wire::EncodeShardMessage(hub, frames))
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    return Told(std::move(bytes));
  }
  Said Computed(const std::vector<wire::ExpertFrame>& results) {
    return WorkOver(ExpertResults{results, Milliseconds(1)});
  }
  void HoldAll(uint32_t epoch, const std::vector<wire::LayerExperts>& sets) {
    Told(Hold(epoch, sets));
    FetchOver();
    Read();
    WorkOver(ExpertsInstalled{50});
  }
};

TEST_F(MembershipShardsTest, ExpertsAreFetchedReadInstalledAndThenTheyAreHeld) {
  Join();
  EXPECT_THAT(Told(Hold(3, {{1, {0, 2}}, {2, {5}}})), ElementsAre("FETCH 1:0 1:2 2:5"));
  EXPECT_THAT(Shards(9, {Dispatch(1, 1, 0)}), ElementsAre("shards to 9 failed 1:0"));
  EXPECT_THAT(FetchOver(), ElementsAre("READ EXPERTS"));
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install experts"));
  EXPECT_THAT(WorkOver(ExpertsInstalled{50}),
              ElementsAre("experts_held { epoch: 3 used_bytes: 50 }"));
  EXPECT_THAT(Shards(9, {Dispatch(1, 1, 0), Dispatch(1, 1, 2), Dispatch(1, 1, 1)}),
              ElementsAre("shards to 9 failed 1:1", "COMPUTE experts 1:0 1:2"));
  EXPECT_THAT(Computed({Dispatch(1, 1, 0)}), ElementsAre("shards to 9 1:0"));
}

TEST_F(MembershipShardsTest, WhatFailsIsSaidUnderItsEpoch) {
  Join();
  Told(Hold(3, {{1, {0}}}));
  EXPECT_THAT(Told(FetchEnded{Error(ErrorCode::kIo, "Gone.")}), ElementsAre("failed 3 io"));
  EXPECT_THAT(Told(Hold(4, {{1, {0}}})), ElementsAre("FETCH 1:0"));
}

TEST_F(MembershipShardsTest, TheNewestStatementCounts) {
  Join();
  HoldAll(1, {{1, {0, 2}}});
  EXPECT_THAT(Told(Hold(2, {{1, {0, 4}}})), ElementsAre("FETCH 1:0 1:4"));
  // Not named any more, held already, not loaded yet.
  EXPECT_THAT(Shards(9, {Dispatch(1, 1, 2), Dispatch(1, 1, 0), Dispatch(1, 1, 4)}),
              ElementsAre("shards to 9 failed 1:2 failed 1:4", "COMPUTE experts 1:0"));
  EXPECT_THAT(Told(Hold(3, {})), ElementsAre("INTERRUPT FETCH"));
  EXPECT_THAT(FetchInterrupted(), ElementsAre("FETCH"));
  EXPECT_THAT(Computed({Dispatch(1, 1, 0)}), ElementsAre("shards to 9 1:0"));
  FetchOver();
  Read();
  EXPECT_THAT(WorkOver(ExpertsInstalled{0}), ElementsAre("experts_held { epoch: 3 }"));
  EXPECT_THAT(Shards(9, {Dispatch(2, 1, 0)}), ElementsAre("shards to 9 failed 1:0"));
}

TEST_F(MembershipShardsTest, DispatchesAndStepsTakeTurns) {
  Join();
  Bind(1, 0, 3);
  HoldAll(2, {{1, {0}}});
  EXPECT_THAT(Step(1, 1), ElementsAre("COMPUTE step 1"));
  EXPECT_THAT(Step(2, 1, 1, 1), IsEmpty());
  EXPECT_THAT(Shards(9, {Dispatch(1, 1, 0)}), IsEmpty());
  EXPECT_THAT(Shards(8, {Dispatch(1, 1, 0)}), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{{}}), ElementsAre("frame", "COMPUTE experts 1:0"));
  EXPECT_THAT(Computed({Dispatch(1, 1, 0)}), ElementsAre("shards to 9 1:0", "COMPUTE step 2"));
  EXPECT_THAT(WorkOver(StepReply{{}}), ElementsAre("frame", "COMPUTE experts 1:0"));
  EXPECT_THAT(Computed({Dispatch(1, 1, 0)}), ElementsAre("shards to 8 1:0"));
}

TEST_F(MembershipShardsTest, EveryPingTellsItsHubsHowBusyItIs) {
  Join();
  HoldAll(2, {{1, {0}}});
  const auto ping = Make([](pb::ServerMessage& message) { message.mutable_ping()->set_nonce(5); });
  EXPECT_THAT(Told(ping), ElementsAre("pong { nonce: 5 }"));
  Shards(9, {Dispatch(1, 1, 0)});
  Shards(9, {Dispatch(1 | wire::kBatchBit, 1, 0)});
  EXPECT_THAT(Told(ping), ElementsAre("pong { nonce: 5 }", "shards to 9 heartbeat"));
  const auto& said = std::get<SendShards>(actions_.back());
  const wire::Heartbeat heartbeat = wire::ReadHeartbeat(said.frames.front());
  EXPECT_EQ(heartbeat.waiting, 2u);
  EXPECT_EQ(heartbeat.held_bytes, 50u);
}

TEST_F(MembershipShardsTest, NothingIsAnsweredOverAConnectionThatIsGone) {
  Join();
  HoldAll(2, {{1, {0}}});
  Shards(9, {Dispatch(1, 1, 0)});
  Shards(9, {Dispatch(1, 1, 0)});
  EXPECT_THAT(Told(ConnectionLost{}), ElementsAre("KEEP 60000"));
  EXPECT_THAT(Computed({Dispatch(1, 1, 0)}), IsEmpty());
  Told(ConnectedAgain{});
  EXPECT_THAT(Told(InitMessage()), ElementsAre("SILENCE 3000", "COMPUTE stock"));
  EXPECT_THAT(WorkOver(Stock{}), ElementsAre("connect"));
  // What it holds has to be said again, under any epoch.
  EXPECT_THAT(Shards(9, {Dispatch(1, 1, 0)}), ElementsAre("shards to 9 failed 1:0"));
  EXPECT_THAT(Told(Hold(1, {{1, {0}}})), ElementsAre("FETCH 1:0"));
}

TEST_F(MembershipShardsTest, WhatAServerMustNotSendEndsTheConnection) {
  Join();
  Told(Hold(3, {}));
  EXPECT_THAT(Told(Hold(3, {})), ElementsAre("FINISH invalid_data"));
  EXPECT_THAT(Problem(), HasSubstr("epoch 3 after that of epoch 3"));
}

TEST_F(MembershipShardsTest, SetsOfAnotherModelEndTheConnection) {
  Join();
  EXPECT_THAT(Told(Hold(3, {{kTestLayers, {0}}})), ElementsAre("FINISH invalid_data"));
}

TEST_F(MembershipShardsTest, WhatAHubGarbledIsPassedOver) {
  Join();
  EXPECT_THAT(Told(std::vector<uint8_t>{0x02, 1, 0, 0, 0, 'M', 'o'}), IsEmpty());
  EXPECT_THAT(Told(Hold(3, {{1, {0}}})), ElementsAre("FETCH 1:0"));
}

class MembershipChannelTest : public MembershipShardsTest {
 protected:
  MembershipChannelTest()
      : MembershipShardsTest([] {
          Offer offer = TakesExperts();
          offer.datagrams = true;
          return offer;
        }()) {}
  // How many probes this device sends at once when the hub offers a channel to three addresses.
  size_t Probes(uint32_t hub) {
    wire::TensorChannel channel;
    channel.channel.epoch = ++epoch_;
    channel.bytes_per_ms = 1;
    for (uint8_t i = 1; i <= 3; ++i) {
      DatagramAddress& address = channel.addresses.emplace_back();
      address.ip[0] = 0xfd;
      address.port = i;
    }
    Shards(hub, {wire::ChannelFrame(channel)});
    size_t count = 0;
    for (const Action& action : actions_)
      if (const auto* sent = std::get_if<SendDatagrams>(&action)) count += sent->datagrams.size();
    return count;
  }
  uint32_t epoch_ = 0;
};

TEST_F(MembershipChannelTest, AHubOffersAnewSoOften) {
  Join();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Probes(9), 3u);
  EXPECT_EQ(Probes(9), 0u);
  EXPECT_EQ(Probes(8), 3u) << "that is another one's business";
}

TEST_F(MembershipChannelTest, AllHubsTogetherDoSo) {
  Join();
  size_t probes = 0;
  for (uint32_t hub = 1; hub <= 100; ++hub) probes += Probes(hub);
  EXPECT_EQ(probes, 16 * 3u);
}

TEST_F(MembershipTest, AWorkerThatTakesNoExpertsIsSentNoneOfIt) {
  Join();
  EXPECT_THAT(Told(Hold(3, {})), ElementsAre("FINISH invalid_data"));
  EXPECT_THAT(Problem(), HasSubstr("takes no experts"));
}

}  // namespace
}  // namespace weft::worker
