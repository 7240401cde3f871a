// A hub and a holder of neuron groups agree on datagrams (datagram.h) over the connections of their
// shard messages. These are the bodies of the expert frames CHANNEL and READY. Whoever has these
// connections, the server among them, has the keys, and nobody else.
//
//   CHANNEL, from the hub                              READY, from the holder
//   0   u32 key epoch: of this hub and holder, rising      0  u32 key epoch of the CHANNEL
//   4   u16 channel                                    4  u8  1: a challenge came; 0: none did
//   6   u16 addresses, 1 to 16                         5  u8[3] 0
//   8   u32 bytes that it may send in a millisecond
//   12  u8[32] key of what the holder sends
//   44  u8[32] key of what the hub sends
//   76  addresses, 18 bytes each: u8[16] ip, u16 port
//
// A CHANNEL is a shard message by itself: the server, which passes it on, leaves only addresses in
// it that may be the hub's (swarm/workers/channel_addresses.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/aead.h"
#include "base/datagram_address.h"
#include "base/result.h"
#include "wire/datagram.h"
#include "wire/expert_frame.h"

namespace weft::wire {

inline constexpr size_t kChannelHeadBytes = 76;
inline constexpr size_t kChannelAddressBytes = 18;
inline constexpr size_t kMostChannelAddresses = 16;
static_assert(kLeastChannelBytes == kChannelHeadBytes + kChannelAddressBytes);
static_assert(kMostChannelBytes ==
              kChannelHeadBytes + kMostChannelAddresses * kChannelAddressBytes);

struct TensorChannel {
  DatagramChannel channel;
  uint32_t bytes_per_ms = 0;
  AeadKey up{}, down{};  // of the holder's datagrams, of the hub's
  std::vector<DatagramAddress> addresses;
  bool operator==(const TensorChannel&) const = default;
};
// REQUIRES: 1 to kMostChannelAddresses addresses.
ExpertFrame ChannelFrame(const TensorChannel& channel);
// kInvalidData: lengths that do not fit, no pace, or an address that is not one host's.
Result<TensorChannel> ReadChannel(const ExpertFrame& frame);

// Connect.datagram_addresses. REQUIRES of the first: at most kMostChannelAddresses.
std::string PackAddresses(std::span<const DatagramAddress> addresses);
// kInvalidData: lengths that do not fit, several ports, or an address that is not one host's.
Result<std::vector<DatagramAddress>> UnpackAddresses(ByteSpan bytes);

struct ChannelReady {
  uint32_t key_epoch = 0;
  bool ready = false;
};
ExpertFrame ReadyFrame(const ChannelReady& answer);
// REQUIRES: a decoded frame of that type.
ChannelReady ReadReady(const ExpertFrame& frame);

}  // namespace weft::wire
