// Frames that ask for tokens of the whole model (docs/protocol.md). The orchestrator asks a worker
// with every layer for up to `count` tokens. The worker gives some at a time, without a round trip
// for each. Little-endian; a message of their own beside data frames.
//
//   header, 16 bytes        0 u32 magic "WGEN"  4 u16 protocol version  6 u8 type  7 u8 zero
//                           8 u32 sequence  12 u32 binding
//   Generate, 64 bytes      16 u32 session  20 u32 generation  24 u32 position  28 i32 token
//                           32 u16 count  34 u16 interval  36 f32 temperature  40 u32 top_k
//                           44 f32 top_p  48 f32 min_p  52 f32 repetition  56 f32 presence
//                           60 f32 frequency  64 u64 seed  72 u16 stops  74 u16 biases
//                           76 u32 tokens seen
//                           then stops i32, biases (i32, f32), tokens seen (i32, u32 how often)
//   Tokens, 8 bytes         16 u16 count  18 u8 1 when it is the last  19 u8 zero
//                           20 u32 compute time in us, then i32 tokens
//   Stop, RunHere, WholeModel, 4 bytes   16 u32 value
//                           then UTF-8 to the end, at most 512 bytes: RunHere the API key,
//                           WholeModel a sentence for the user; Stop nothing
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "sampling/penalize.h"

namespace weft::wire {

inline constexpr uint32_t kWholeFrameMagic = 0x4e454757;  // "WGEN"

struct Generate {
  uint32_t sequence = 0, binding = 0;
  uint32_t session = 0, generation = 0;
  uint32_t position = 0;  // of `token`, the session's last, which no layer has seen
  int32_t token_id = 0;
  uint16_t count = 1;                      // tokens wanted
  uint16_t interval = 1;                   // of them in one Tokens frame, at most
  sampling::Parameters sampling;           // its seed is set
  std::vector<int32_t> stop_ids;           // the first of these is the last token
  std::vector<sampling::TokenCount> seen;  // in the session so far; for penalties
  bool operator==(const Generate&) const = default;
};

// Tokens of the oldest unanswered Generate, in order.
struct Tokens {
  uint32_t sequence = 0, binding = 0;
  bool last = false;
  uint32_t compute_us = 0;
  std::vector<int32_t> token_ids;
  bool operator==(const Tokens&) const = default;
};

// Nobody wants the rest of a Generate: the worker ends it with a last Tokens frame.
struct StopGenerating {
  uint32_t sequence = 0, binding = 0;
  bool operator==(const StopGenerating&) const = default;
};

// The longest text of RunHere and WholeModel.
inline constexpr size_t kMaxWholeText = 512;

// From a worker: its user wants it to run the whole model, or not any longer.
struct RunHere {
  bool wanted = false;
  std::string api_key;  // shows that the user may; empty: it has none
  bool operator==(const RunHere&) const = default;
};

// To a worker: whether it may be asked to.
struct WholeModel {
  // kAsked: it was, and the swarm's owner is asked for consent.
  enum class State : uint32_t { kTooLarge = 0, kFits = 1, kHere = 2, kAsked = 3 };
  State state = State::kTooLarge;
  std::string message;  // why it is so, for the user; mostly empty
  bool operator==(const WholeModel&) const = default;
};

using WholeFrame = std::variant<Generate, Tokens, StopGenerating, RunHere, WholeModel>;

// Whether the message is one of these frames rather than a data frame.
bool IsWholeFrame(ByteSpan message);

std::vector<uint8_t> EncodeWholeFrame(const WholeFrame& frame);

// The error names the field, its value and what was expected.
Result<WholeFrame> DecodeWholeFrame(ByteSpan message);

}  // namespace weft::wire
