// What hubs and holders agree on, and the addresses that may stand in it.
#include "wire/tensor_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::wire {
namespace {

using testing::HasSubstr;

DatagramAddress Address(uint8_t first, uint8_t last, uint16_t port = 4000) {
  DatagramAddress address;
  address.ip[0] = first;
  address.ip[15] = last;
  address.port = port;
  return address;
}

TensorChannel ChannelTo(std::vector<DatagramAddress> addresses) {
  TensorChannel channel;
  channel.channel = {7, 3};
  channel.bytes_per_ms = 100;
  channel.up[0] = 1;
  channel.down[31] = 2;
  channel.addresses = std::move(addresses);
  return channel;
}

Slice MessageOf(const std::vector<ExpertFrame>& frames) {
  std::vector<uint8_t> bytes;
  for (const Slice& piece : EncodeShardMessage(9, frames))
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  return Slice(std::move(bytes));
}

TEST(TensorChannel, IsReadAsItWasSaid) {
  const TensorChannel channel = ChannelTo({Address(0xfd, 1), Address(0xfe, 2)});
  const auto read = ReadChannel(ChannelFrame(channel));
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(*read, channel);
}

TEST(TensorChannel, NamesHostsAlone) {
  for (const DatagramAddress& address : {Address(0xff, 1), Address(0, 0), Address(0xfd, 1, 0)}) {
    const auto read = ReadChannel(ChannelFrame(ChannelTo({Address(0xfd, 1), address})));
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().message(), HasSubstr("expected the address of one host and a port"));
  }
}

// Whoever passes it on looks at the first frame, and at no other.
TEST(TensorChannel, IsAMessageByItself) {
  const ExpertFrame channel = ChannelFrame(ChannelTo({Address(0xfd, 1)}));
  const ExpertFrame cancel = CancelFrame(1, 2, 3);
  EXPECT_TRUE(DecodeShardMessage(MessageOf({channel})).ok());
  EXPECT_TRUE(IsChannelMessage(MessageOf({channel}).bytes()));
  EXPECT_FALSE(IsChannelMessage(MessageOf({cancel, cancel}).bytes()));
  for (const std::vector<ExpertFrame>& frames :
       {std::vector{channel, cancel}, {cancel, channel}, {channel, channel}}) {
    const auto decoded = DecodeShardMessage(MessageOf(frames));
    ASSERT_FALSE(decoded.ok());
    EXPECT_THAT(decoded.error().message(), HasSubstr("a channel beside other frames"));
  }
}

TEST(TensorChannel, AddressesOfConnectAreOneSockets) {
  const std::vector<DatagramAddress> own = {Address(0xfd, 1), Address(0xfd, 2)};
  const std::string packed = PackAddresses(own);
  EXPECT_EQ(UnpackAddresses(AsBytes(packed)).value(), own);
  EXPECT_TRUE(UnpackAddresses({}).value().empty());
  const auto problem = [](const std::string& bytes) {
    const auto addresses = UnpackAddresses(AsBytes(bytes));
    return addresses.ok() ? "" : addresses.error().message();
  };
  EXPECT_THAT(problem(packed.substr(1)), HasSubstr("take 35 bytes, expected 18 for each"));
  EXPECT_THAT(problem(PackAddresses(std::vector(16, own[0])) + packed), HasSubstr("16 addresses"));
  EXPECT_THAT(problem(packed + PackAddresses(std::vector{Address(0xfd, 1, 53)})),
              HasSubstr("the ports 4000 and 53"));
  EXPECT_THAT(problem(PackAddresses(std::vector{Address(0xff, 1)})), HasSubstr("one host"));
}

}  // namespace
}  // namespace weft::wire
