// Shard messages from a peer: decoding never crashes, and what it accepts encodes back to the same
// bytes.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "wire/expert_frame.h"
#include "wire/tensor_channel.h"

namespace {

std::vector<uint8_t> Encoded(const weft::wire::ShardMessage& message) {
  std::vector<uint8_t> bytes;
  for (const weft::Slice& piece : weft::wire::EncodeShardMessage(message.peer, message.frames))
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft;
  const Slice bytes(std::vector<uint8_t>(data, data + byte_count));
  const Result<wire::ShardMessage> message = wire::DecodeShardMessage(bytes);
  if (!message.ok()) return 0;
  CHECK(wire::ShardPeer(bytes.bytes()).value() == message->peer);
  const std::vector<uint8_t> again = Encoded(*message);
  CHECK(again.size() == byte_count && std::equal(again.begin(), again.end(), data));
  for (const wire::ExpertFrame& frame : message->frames) {
    if (frame.type == wire::ExpertFrameType::kHeartbeat) (void)wire::ReadHeartbeat(frame);
    if (frame.type == wire::ExpertFrameType::kReady) (void)wire::ReadReady(frame);
    if (frame.type != wire::ExpertFrameType::kChannel) continue;
    const Result<wire::TensorChannel> channel = wire::ReadChannel(frame);
    if (!channel.ok()) continue;
    const Result<wire::TensorChannel> same = wire::ReadChannel(wire::ChannelFrame(*channel));
    CHECK(same.ok() && *same == *channel);
  }
  return 0;
}
