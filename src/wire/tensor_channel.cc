#include "wire/tensor_channel.h"

#include <algorithm>

#include "base/check.h"
#include "base/network.h"
#include "base/sentence.h"

namespace weft::wire {
namespace {

void StoreAddress(const DatagramAddress& address, uint8_t* at) {
  std::ranges::copy(address.ip, at);
  StoreLe(at + address.ip.size(), address.port);
}

Result<DatagramAddress> LoadAddress(const uint8_t* at) {
  DatagramAddress address;
  std::copy_n(at, address.ip.size(), address.ip.begin());
  address.port = LoadLe<uint16_t>(at + address.ip.size());
  if (address.port != 0 && IsOneHost(address.ip)) return address;
  return Error(ErrorCode::kInvalidData,
               Sentence("Datagrams are to go to ", ToHex(address.ip), " at port ", address.port,
                        ", expected the address of one host and a port."));
}

}  // namespace

ExpertFrame ChannelFrame(const TensorChannel& channel) {
  const size_t count = channel.addresses.size();
  CHECK(count >= 1 && count <= kMostChannelAddresses);
  std::vector<uint8_t> body(kChannelHeadBytes + count * kChannelAddressBytes);
  StoreLe(body.data(), channel.channel.key_epoch);
  StoreLe(body.data() + 4, channel.channel.channel);
  StoreLe(body.data() + 6, static_cast<uint16_t>(count));
  StoreLe(body.data() + 8, channel.bytes_per_ms);
  std::ranges::copy(channel.up, body.begin() + 12);
  std::ranges::copy(channel.down, body.begin() + 44);
  uint8_t* at = body.data() + kChannelHeadBytes;
  for (const DatagramAddress& address : channel.addresses) {
    StoreAddress(address, at);
    at += kChannelAddressBytes;
  }
  ExpertFrame frame;
  frame.type = ExpertFrameType::kChannel;
  frame.body = Slice(std::move(body));
  return frame;
}

Result<TensorChannel> ReadChannel(const ExpertFrame& frame) {
  const ByteSpan body = frame.body.bytes();
  const size_t count = body.size() < kLeastChannelBytes ? 0 : LoadLe<uint16_t>(body.data() + 6);
  if (count == 0 || body.size() != kChannelHeadBytes + count * kChannelAddressBytes)
    return Error(ErrorCode::kInvalidData,
                 Sentence("A channel of ", body.size(), " bytes announces ", count,
                          " addresses, expected 1 to ", kMostChannelAddresses, " that it has."));
  TensorChannel channel;
  channel.channel.key_epoch = LoadLe<uint32_t>(body.data());
  channel.channel.channel = LoadLe<uint16_t>(body.data() + 4);
  channel.bytes_per_ms = LoadLe<uint32_t>(body.data() + 8);
  if (channel.bytes_per_ms == 0)
    return Error(ErrorCode::kInvalidData,
                 "A channel allows 0 bytes in a millisecond, expected at least 1.");
  std::ranges::copy(body.subspan(12, channel.up.size()), channel.up.begin());
  std::ranges::copy(body.subspan(44, channel.down.size()), channel.down.begin());
  for (size_t i = 0; i < count; ++i) {
    const ByteSpan at = body.subspan(kChannelHeadBytes + i * kChannelAddressBytes);
    ASSIGN_OR_RETURN(channel.addresses.emplace_back(), LoadAddress(at.data()));
  }
  return channel;
}

std::string PackAddresses(std::span<const DatagramAddress> addresses) {
  CHECK(addresses.size() <= kMostChannelAddresses);
  std::vector<uint8_t> bytes(addresses.size() * kChannelAddressBytes);
  for (size_t i = 0; i < addresses.size(); ++i)
    StoreAddress(addresses[i], &bytes[i * kChannelAddressBytes]);
  return std::string(AsText(bytes));
}

Result<std::vector<DatagramAddress>> UnpackAddresses(ByteSpan bytes) {
  const size_t count = bytes.size() / kChannelAddressBytes;
  if (count > kMostChannelAddresses || bytes.size() != count * kChannelAddressBytes)
    return Error(ErrorCode::kInvalidData,
                 Sentence("Addresses of datagrams take ", bytes.size(), " bytes, expected ",
                          kChannelAddressBytes, " for each and ", kMostChannelAddresses,
                          " addresses at most."));
  std::vector<DatagramAddress> addresses(count);
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(addresses[i], LoadAddress(&bytes[i * kChannelAddressBytes]));
    if (addresses[i].port != addresses[0].port)
      return Error(ErrorCode::kInvalidData,
                   Sentence("Addresses of datagrams name the ports ", addresses[0].port, " and ",
                            addresses[i].port, ", expected one socket's."));
  }
  return addresses;
}

ExpertFrame ReadyFrame(const ChannelReady& answer) {
  std::vector<uint8_t> body(kReadyBytes, 0);
  StoreLe(body.data(), answer.key_epoch);
  body[4] = answer.ready ? 1 : 0;
  ExpertFrame frame;
  frame.type = ExpertFrameType::kReady;
  frame.body = Slice(std::move(body));
  return frame;
}

ChannelReady ReadReady(const ExpertFrame& frame) {
  CHECK(frame.type == ExpertFrameType::kReady && frame.body.byte_count() == kReadyBytes);
  return {LoadLe<uint32_t>(frame.body.bytes().data()), frame.body.bytes()[4] == 1};
}

}  // namespace weft::wire
