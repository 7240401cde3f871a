// How often a holder lets hubs offer it channels for datagrams. What else it does for them is in
// tests/conformance/membership.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/tensor_channel.h"
#include "worker/expert_testing.h"
#include "worker/membership_testing.h"

namespace weft::worker {
namespace {

Offer TakesExperts() {
  Offer offer;
  offer.takes_experts = true;
  return offer;
}

class MembershipChannelTest : public MembershipTest {
 protected:
  MembershipChannelTest()
      : MembershipTest([] {
          Offer offer = TakesExperts();
          offer.datagrams = true;
          return offer;
        }()) {}
  // How many probes this device sends at once when the hub offers a channel to three addresses.
  size_t Probes(uint32_t hub) {
    wire::TensorChannel channel;
    channel.channel.key_epoch = ++key_epoch_;
    channel.bytes_per_ms = 1;
    for (uint8_t i = 1; i <= 3; ++i) {
      DatagramAddress& address = channel.addresses.emplace_back();
      address.ip[0] = 0xfd;
      address.port = i;
    }
    std::vector<uint8_t> bytes;
    for (const Slice& piece : wire::EncodeShardMessage(hub, {{wire::ChannelFrame(channel)}}))
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    Told(std::move(bytes));
    size_t count = 0;
    for (const Action& action : actions_)
      if (const auto* sent = std::get_if<SendDatagrams>(&action)) count += sent->datagrams.size();
    return count;
  }
  uint32_t key_epoch_ = 0;
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

}  // namespace
}  // namespace weft::worker
