// What the core passes on between hubs and holders, and those whose messages wait meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/network.h"
#include "swarm/tests/core_testing.h"
#include "wire/expert_frame.h"
#include "wire/tensor_channel.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

DatagramAddress At(const std::string& ip) {
  return {ParseIp(ip).value(), 4000};
}

Slice Message(WorkerId peer, const wire::ExpertFrame& frame) {
  std::vector<uint8_t> bytes;
  for (const Slice& piece :
       wire::EncodeShardMessage(static_cast<uint32_t>(peer.value()), {&frame, 1}))
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  return Slice(std::move(bytes));
}

// A hub and a holder of its experts.
class CoreRelayTest : public testing::Test {
 protected:
  static CoreOptions Options() {
    CoreOptions options = TestOptions();
    options.plan_kind = PlanKind::kExperts;
    for (uint32_t layer = 1; layer <= 4; ++layer) {
      options.model.layers[layer].expert_count = 4;
      options.model.layers[layer].experts_per_token = 1;
      options.model.layers[layer].expert_bytes = 200'000;
    }
    return options;
  }
  CoreRelayTest() : swarm_(Options()) {}

  void Start(const std::string& hub_at, const std::string& holder_at,
             const std::vector<std::string>& own = {}) {
    TestWorker hub;
    hub.memory_bytes = 3'000'000;
    hub.can_be_hub = true;
    hub.address = hub_at;
    for (const std::string& ip : own) hub.datagram_addresses.push_back(At(ip));
    TestWorker holder;
    holder.takes_experts = true;
    holder.address = holder_at;
    hub_ = swarm_.Join(hub);
    holder_ = swarm_.Join(holder);
    swarm_.Advance(Seconds(1));
    ASSERT_EQ(swarm_.picture().state, SwarmState::kUp);
    swarm_.ClearLog();
  }
  // The addresses of the channel that the holder is told of when the hub names these.
  std::vector<DatagramAddress> Told(const std::vector<std::string>& named) {
    wire::TensorChannel channel;
    channel.bytes_per_ms = 1;
    for (const std::string& ip : named) channel.addresses.push_back(At(ip));
    swarm_.ClearLog();
    swarm_.Feed(WorkerData{hub_, Message(holder_, wire::ChannelFrame(channel))});
    for (const Action& action : swarm_.log()) {
      const auto* sent = std::get_if<SendData>(&action);
      if (sent == nullptr || sent->worker != holder_) continue;
      std::vector<uint8_t> bytes;
      for (const Slice& piece : sent->pieces)
        bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
      const auto message = wire::DecodeShardMessage(Slice(std::move(bytes))).value();
      EXPECT_EQ(message.peer, hub_.value());
      return wire::ReadChannel(message.frames.at(0)).value().addresses;
    }
    return {};
  }

  TestSwarm swarm_;
  WorkerId hub_ = 0, holder_ = 0;
};

TEST_F(CoreRelayTest, TheHostHearsWhoseMessageItPassesOn) {
  Start("127.0.0.1", "127.0.0.1");
  swarm_.Feed(WorkerData{hub_, Message(holder_, wire::CancelFrame(7, 1, 2))});
  ASSERT_EQ(swarm_.log().size(), 1u);
  const auto& sent = std::get<SendData>(swarm_.log()[0]);
  EXPECT_EQ(sent.worker, holder_);
  EXPECT_EQ(sent.sender, hub_);
}

// The rest of the world is nobody that a holder is made to write to.
TEST_F(CoreRelayTest, AHolderIsToldOfAddressesThatMayBeTheHubsAlone) {
  Start("203.0.113.5", "198.51.100.9",
        {"203.0.113.5", "192.168.1.7", "8.8.8.8", "127.0.0.1", "2001:db8::5"});
  EXPECT_THAT(Told({"203.0.113.5", "192.168.1.7", "8.8.8.8", "127.0.0.1", "2001:db8::5"}),
              ElementsAre(At("203.0.113.5"), At("192.168.1.7")));
  // What it has not named in Connect, private or not.
  EXPECT_THAT(Told({"192.168.1.1", "192.168.1.7"}), ElementsAre(At("192.168.1.7")));
  EXPECT_THAT(Told({"8.8.8.8"}), IsEmpty());
  EXPECT_THAT(swarm_.CloseReasons(hub_), IsEmpty());
}

TEST_F(CoreRelayTest, OfIPv6TheSameNetworkIsTheHubs) {
  Start("2001:db8:1:2::9", "2001:db8:7::1", {"2001:db8:1:2:3::4", "2001:db8:1:3::4", "fd00::4"});
  EXPECT_THAT(Told({"2001:db8:1:2:3::4", "2001:db8:1:3::4", "fd00::4"}),
              ElementsAre(At("2001:db8:1:2:3::4"), At("fd00::4")));
}

TEST_F(CoreRelayTest, LoopbackIsForTwoThatAreBothOnThisMachine) {
  Start("127.0.0.1", "127.0.0.1", {"127.0.0.1", "::1", "8.8.8.8"});
  EXPECT_THAT(Told({"127.0.0.1", "::1", "8.8.8.8"}), ElementsAre(At("127.0.0.1"), At("::1")));
}

TEST_F(CoreRelayTest, LoopbackIsNotForOthers) {
  Start("127.0.0.1", "192.168.1.9", {"127.0.0.1", "192.168.1.7"});
  EXPECT_THAT(Told({"127.0.0.1", "192.168.1.7"}), ElementsAre(At("192.168.1.7")));
}

// The built-in worker's are the server's, whom nobody has to believe anything.
TEST_F(CoreRelayTest, TheWorkerOfThisProcessNamesWhatItHas) {
  Start("in this process", "198.51.100.9", {"203.0.113.5", "127.0.0.1"});
  EXPECT_THAT(Told({"203.0.113.5", "127.0.0.1"}), ElementsAre(At("203.0.113.5")));
}

TEST_F(CoreRelayTest, AHolderOffersNoChannels) {
  Start("127.0.0.1", "127.0.0.1", {"127.0.0.1"});
  wire::TensorChannel channel;
  channel.bytes_per_ms = 1;
  channel.addresses = {At("127.0.0.1")};
  swarm_.Feed(WorkerData{holder_, Message(hub_, wire::ChannelFrame(channel))});
  for (const Action& action : swarm_.log()) EXPECT_EQ(std::get_if<SendData>(&action), nullptr);
}

// Its pongs wait behind what somebody else does not take.
TEST_F(CoreRelayTest, WhoIsHeldBackMayBeSilentForAWhile) {
  Start("127.0.0.1", "127.0.0.1");
  swarm_.worker(hub_).answer_pings = false;
  swarm_.Feed(WorkerHeldBack{hub_, true});
  swarm_.Advance(Seconds(5));
  swarm_.Feed(WorkerHeldBack{hub_, false});
  swarm_.Advance(Milliseconds(900));
  EXPECT_THAT(swarm_.CloseReasons(hub_), IsEmpty()) << "what it said meanwhile comes now";
  swarm_.worker(hub_).answer_pings = true;
  swarm_.Advance(Seconds(1));
  EXPECT_THAT(swarm_.CloseReasons(hub_), IsEmpty());
  swarm_.worker(hub_).answer_pings = false;
  swarm_.Feed(WorkerHeldBack{hub_, true});
  swarm_.Advance(Seconds(11));
  EXPECT_THAT(swarm_.CloseReasons(hub_), ElementsAre(HasSubstr("Nothing was heard from it")));
}

}  // namespace
}  // namespace weft::swarm
