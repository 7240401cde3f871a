// Shard messages: rows that a hub sends to whoever holds an expert of a layer, and what comes back.
// One WebSocket message holds several of the frames of moex-expert-disaggregation 4.2; all numbers
// are little-endian, payloads are not copied.
//
//   shard message                      frame: header, 28 bytes, then its payload
//   0  u8  0x02                        0  u8[4] "MoEx"
//   1  u32 peer                        4  u16 version of this layout (2)
//   5  frames, at least one            6  u16 type
//                                      8  u32 payload bytes
//                                      12 u32 sequence; its top bit tells two batches apart
//                                      16 u16 layer
//                                      18 u16 expert
//                                      20 u32 tokens
//                                      24 u16 hidden (columns of a row)
//                                      26 u8  element type: 5 f32, 6 f16, 7 steps, 8 integers
//                                      27 u8  flags: 2 same rows, 8 failed, 16 sum, 32 may be lost,
//                                         64 best, 128 steps
//
// From a hub the peer is the holder of the frames, from a holder it is the hub. A forwarder of a
// message replaces these four bytes and nothing else.
//
// Type and payload:
//   1 DISPATCH     rows [tokens, hidden]. Flag 2: they are those of the frame before, a DISPATCH
//                  with the same sequence, layer, tokens and hidden, and are not repeated: a row
//                  goes once to a worker that runs several of its experts. Flag 16: the answer may
//                  be the sum of this expert's rows and those of others that the message asks for
//                  so. Flag 32: the answer may be datagrams, which may be lost (tensor_channel.h).
//                  Flag 64: of a range of an output head the two best are wanted (slot_kind.h).
//                  Flag 128: the answer's rows may be steps. These are whole multiples of the step
//                  of the layer's grid (program/neuron_groups.h), three bytes each, as signed
//                  numbers of 24 bits. Example: -2 steps are FE FF FF.
//   2 RESULT       same sequence, layer and expert: unweighted rows [tokens, hidden]. Flag 8: it
//                  failed; the payload is a sentence, and there is no tensor. Flag 16: the rows are
//                  sums; behind them come the other experts in them, u16 each, rising, all above
//                  this frame's, and a u16 that says how many they are, at least 1.
//   3 CANCEL       nobody waits for this sequence, layer and expert (65535: any) any more. Empty.
//   4 HEARTBEAT    20 bytes: u32 dispatches waiting, u32 median us of a recent one, u64 bytes held,
//                  u32 bytes of the longest message it takes.
//   6 CHANNEL      from a hub: where datagrams go, and their keys (tensor_channel.h). It is the
//                  only frame of its message.
//   7 READY        from a holder: whether they get there (tensor_channel.h).
//   8 ROWS         from a hub to the server (peer 0), which asks holders for it. `expert` has how
//                  many slots a row has. Rows [tokens, hidden] in f32, behind each of them its
//                  route: the experts of its slots as f32, then their weights (MoeRoute). No slots:
//                  the rows are for all neuron groups of the layer.
//   9 GIVEN        the server's answer (peer 0): same sequence, layer and expert, and for each row
//                  the weighted sum of its slots, or of its groups, [tokens, hidden] in f32. Flag
//                  8: it failed; the payload is a sentence, and there is no tensor.
// Rows of a dispatch are integers where whoever holds the experts multiplies them as such
// (tensor/integer_row.h): half of f32's bytes for the same products. Results have their dispatch's
// element type, f32 where that is integers, or 7 where it has flag 128. The flags from 16 on want
// f32 or integers of a dispatch. Frames without a tensor have tokens, hidden and element type 0;
// types 4, 6 and 7 have layer and expert 0. A CANCEL to peer 0 is of the ROWS of its sequence and
// layer. Flag 32 and the types 6 and 7 are for native workers; tabs refuse them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "tensor/half.h"
#include "tensor/integer_row.h"

namespace weft::wire {

inline constexpr uint8_t kShardByte = 0x02;  // first byte of the message
inline constexpr size_t kShardHeadBytes = 5;
inline constexpr size_t kExpertHeaderBytes = 28;
inline constexpr uint16_t kExpertFrameVersion = 2;
inline constexpr uint32_t kBatchBit = 0x80000000u;
inline constexpr uint16_t kAnyExpert = 0xffff;

// Limits of one message. Rows count for every frame that means them, also where they are sent once:
// the answer repeats them, and has to fit a message too.
inline constexpr size_t kMaxShardFrames = 1024;
inline constexpr uint32_t kMaxFrameTokens = 65536;
inline constexpr uint64_t kMaxShardRowBytes = uint64_t{60} << 20;
inline constexpr size_t kMaxFailureBytes = 1024;
// Of the bodies of CHANNEL and READY.
inline constexpr size_t kLeastChannelBytes = 94, kMostChannelBytes = 364, kReadyBytes = 8;

enum class ExpertFrameType : uint16_t {
  kDispatch = 1,
  kResult = 2,
  kCancel = 3,
  kHeartbeat = 4,
  kChannel = 6,
  kReady = 7,
  kRows = 8,
  kGiven = 9,
};

// What rows are made of: numbers of the layout above.
enum class RowType : uint8_t { kF32 = 5, kF16 = 6, kSteps = 7, kIntegers = 8 };

inline constexpr size_t kStepBytes = 3;

// What answers to rows of this type have.
constexpr RowType AnswerType(RowType asked) {
  return asked == RowType::kIntegers ? RowType::kF32 : asked;
}

// Of answers. REQUIRES: no integers, whose rows are more than their values.
constexpr size_t ElementBytes(RowType type) {
  if (type == RowType::kSteps) return kStepBytes;
  return type == RowType::kF16 ? sizeof(uint16_t) : sizeof(float);
}

constexpr size_t RowBytes(RowType type, size_t columns) {
  return type == RowType::kIntegers ? IntegerRowBytes(columns) : columns * ElementBytes(type);
}

// Writes a row, RowBytes of it. As f16, finite values beyond 65,504 become that. REQUIRES: no
// steps; as integers, finite values.
void StoreRow(std::span<const float> row, RowType type, uint8_t* out);
// The columns of a route of so many slots: their experts, then their weights.
constexpr uint32_t RouteColumns(uint32_t slots) {
  return 2 * slots;
}

// Reads row number `index` of those that begin at `rows`. REQUIRES: a decoded frame's.
void ReadRow(const uint8_t* rows, RowType type, size_t index, std::span<float> row);
// Writes f32 rows as steps of a grid. Gives nothing where a value is no whole number of steps, or
// one beyond 24 bits. REQUIRES: `step` is a power of two.
std::optional<Slice> StepsOf(const Slice& rows, float step);
// Gives value number `index` of an answer's rows that begin at `rows`: of steps, how many.
inline float RowValue(const uint8_t* rows, RowType type, size_t index) {
  if (type == RowType::kSteps) {
    const uint8_t* at = rows + index * kStepBytes;
    const uint32_t bits = uint32_t{at[0]} << 8 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 24;
    return static_cast<float>(static_cast<int32_t>(bits) >> 8);
  }
  if (type == RowType::kF16) return F16ToF32(LoadLe<uint16_t>(rows + index * sizeof(uint16_t)));
  return LoadLe<float>(rows + index * sizeof(float));
}

// Reads an answer's values, of steps times `step`. REQUIRES: rows of so many values; no integers.
void ReadValues(const Slice& rows, RowType type, float step, std::span<float> values);

struct ExpertFrame {
  ExpertFrameType type = ExpertFrameType::kDispatch;
  uint32_t sequence = 0;
  uint16_t layer = 0;
  uint16_t expert = 0;
  uint32_t tokens = 0;
  uint16_t hidden = 0;
  bool same_rows = false;  // `rows` is the frame's before, and is not sent again
  bool failed = false;     // of a result: `body` is a sentence
  bool may_sum = false;    // of a dispatch: its result may have others of the same rows in it
  // Of a dispatch: its result may be datagrams. A result has it as its dispatch had.
  bool may_lose = false;
  bool best = false;  // of a dispatch: wanted of each row are the two best of the range
  // Of a dispatch: its result may be in steps. A result has it as its dispatch had.
  bool takes_steps = false;
  // Of a result that is a sum: whose rows are in it beside those of `expert`, rising.
  std::vector<uint16_t> added;
  RowType row_type = RowType::kF32;
  Slice rows;  // [tokens, hidden] of row_type, of ROWS each with its route behind it
  Slice body;  // of frames without a tensor
};

struct ShardMessage {
  uint32_t peer = 0;
  std::vector<ExpertFrame> frames;
};

// The message in pieces that are written one after the other; rows and bodies are the very slices
// of `frames`.
// REQUIRES: 1..kMaxShardFrames frames of the layout above, within the limits.
std::vector<Slice> EncodeShardMessage(uint32_t peer, std::span<const ExpertFrame> frames);

// The same message as one piece, and how long it is.
std::vector<uint8_t> Joined(std::span<const Slice> pieces);
size_t ByteCount(std::span<const Slice> pieces);

// Whether the message is one of these, by its first byte.
bool IsShardMessage(ByteSpan message);

// Parses and validates all of it; rows share the message. The error names the frame, the field, its
// value and what was expected.
Result<ShardMessage> DecodeShardMessage(const Slice& message);

// Whether its first frame is a CHANNEL. REQUIRES: ShardPeer(message) is ok.
bool IsChannelMessage(ByteSpan message);

// For whoever forwards: whom the message is for, and the same message from or for somebody else, in
// two pieces. Its frames are the receiver's to check.
Result<uint32_t> ShardPeer(ByteSpan message);
// REQUIRES: ShardPeer(message) is ok.
std::vector<Slice> WithShardPeer(const Slice& message, uint32_t peer);

struct Heartbeat {
  uint32_t waiting = 0;     // dispatches, the one under way included
  uint32_t compute_us = 0;  // median of the recent ones
  uint64_t held_bytes = 0;
  uint32_t max_message_bytes = 0;
  bool operator==(const Heartbeat&) const = default;
};
ExpertFrame HeartbeatFrame(const Heartbeat& heartbeat);
ExpertFrame CancelFrame(uint32_t sequence, uint16_t layer, uint16_t expert);
// A dispatch that cannot be computed; what is too long of the sentence is cut off.
ExpertFrame FailedResult(const ExpertFrame& dispatch, std::string sentence);

// The answer to ROWS: [tokens, hidden].
ExpertFrame GivenFrame(const ExpertFrame& rows, std::span<const float> sums);
// ROWS for which there is no answer; what is too long of the sentence is cut off.
ExpertFrame FailedGiven(const ExpertFrame& rows, std::string sentence);

// REQUIRES: a decoded frame of that type.
Heartbeat ReadHeartbeat(const ExpertFrame& frame);

}  // namespace weft::wire
