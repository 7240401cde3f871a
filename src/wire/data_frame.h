// Data frames: what a stage computes on and gives back. Little-endian, no copy, no protobuf around
// payloads.
//
//   header, 40 bytes                              run descriptors, 16 bytes each
//   0  u32 magic "WEFT"                           0  u32 session
//   4  u16 protocol version                       4  u32 generation
//   6  u8  type                                   8  u32 first position
//   7  u8  flags (0)                              12 u16 count (rows)
//   8  u32 bytes after the header                 14 u8  output kind, 4 bits; marks, upper 4
//   12 u32 sequence                               15 u8  candidates: count - 1; draw: raw best
//   16 u32 binding
//   20 u16 stage                                  payload
//   22 u16 runs                                   Step: token ids i32 [rows], or
//   24 u32 rows (sum of counts)                   residual rows [rows, columns]
//   28 u32 columns (1 for token ids; 0 in a       Result: for each run in order what
//      result without hidden rows)                its output asks (below)
//   32 u8  dtype (i32, f16, bf16 or f32)
//   33 u8  reserved (0)
//   34 u16 time in the worker's queue, units of 100 us, saturating (results)
//   36 u32 compute time in us (results)
//
// Payload of a result, run after run: none 0 bytes; hidden count * columns elements; argmax 12
// bytes (u32 id, f32 logit, f32 margin to the second); candidates 12 + 8k bytes (u32 k, f32
// logsumexp of the raw logits, f32 sum over the vocabulary of exp((logit - best) / temperature),
// then k of (u32 id, f32 logit), logits after penalties and biases); logits count * vocabulary f32;
// draw 12 + 8n bytes (u32 id, f32 its raw logit, f32 logsumexp of the raw logits, then the n best
// of (u32 id, f32 raw logit)). Hidden runs do not share a frame with other kinds except none.
//
// Queue and compute time are 0 in a step; a step's runs name each session once. Byte 15
// is 0 unless the output is candidates or a draw. Marks above 0: the position behind the run
// becomes one (base/marks.h), of which the session then holds at most so many.
//
// A receiver checks a frame against exactly what it expects (ExpectedFrame) and refuses anything
// else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "sampling/token_logit.h"
#include "tensor/dtype.h"
#include "wire/version.h"

namespace weft::wire {

inline constexpr uint32_t kFrameMagic = 0x54464557;  // "WEFT"
inline constexpr size_t kHeaderBytes = 40;
inline constexpr size_t kRunBytes = 16;

enum class FrameType : uint8_t { kStep = 1, kResult = 2 };

enum class OutputKind : uint8_t {
  kNone = 0,
  kHidden = 1,
  kArgmax = 2,
  kCandidates = 3,
  kLogits = 4,
  kDraw = 5,
};

struct Run {
  uint32_t session = 0;     // never reused in a connection
  uint32_t generation = 0;  // raised by every truncate or reset
  uint32_t first_position = 0;
  uint16_t count = 0;  // 1..65535 rows
  OutputKind output = OutputKind::kNone;
  uint16_t candidate_count = 0;  // 1..256 for kCandidates, 0..20 for kDraw, else 0
  uint8_t marks = 0;             // 0..kMaxMarks
  bool operator==(const Run&) const = default;
};

struct FrameHeader {
  FrameType type = FrameType::kStep;
  uint32_t sequence = 0;
  uint32_t binding = 0;
  uint16_t stage = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
  DType dtype = DType::kF16;
  uint32_t queue_us = 0;  // rounded down to 100 us on the wire, at most 6.5 s
  uint32_t compute_us = 0;
};

struct Frame {
  FrameHeader header;
  std::vector<Run> runs;
  Slice payload;  // shares the received message
};

// Header and descriptors as bytes; the payload follows them on the wire without having been copied.
// REQUIRES: 1..65535 runs, counts as documented.
std::vector<uint8_t> EncodeFrameHead(const FrameHeader& header, std::span<const Run> runs,
                                     size_t payload_bytes);

// Parses and validates structure: magic, version, type, flags, lengths that add up exactly, counts
// that sum to rows, known kinds and dtypes. The error names the field, its value and what was
// expected.
Result<Frame> DecodeFrame(Slice message);

// Bytes that a result's payload must have for these runs.
uint64_t ResultPayloadBytes(std::span<const Run> runs, uint32_t columns, DType dtype,
                            uint32_t vocabulary);

struct ArgmaxResult {
  int32_t token_id = 0;
  float logit = 0;
  float margin = 0;
};
struct CandidatesResult {
  std::vector<sampling::TokenLogit> candidates;  // by falling logit
  float logsumexp = 0;
  float scaled_sum = 0;
};
struct DrawResult {
  sampling::TokenLogit drawn;  // with its raw logit
  float logsumexp = 0;
  std::vector<sampling::TokenLogit> best;  // raw, by falling logit
};

// Payloads of one run's result.
void AppendArgmax(const ArgmaxResult& result, std::vector<uint8_t>& out);
void AppendCandidates(const CandidatesResult& result, std::vector<uint8_t>& out);
void AppendDraw(const DrawResult& result, std::vector<uint8_t>& out);
// Errors: a wrong length or count, an id outside the vocabulary, a value that is not finite, a
// negative margin. Further ones are a sum that lacks the best token, and candidates that are not by
// falling logit.
Result<ArgmaxResult> DecodeArgmax(ByteSpan payload, uint32_t vocabulary);
Result<CandidatesResult> DecodeCandidates(ByteSpan payload, uint32_t candidate_count,
                                          uint32_t vocabulary);
Result<DrawResult> DecodeDraw(ByteSpan payload, uint32_t best_count, uint32_t vocabulary);

// The result that answers a step which was sent.
struct ExpectedFrame {
  FrameType type = FrameType::kResult;
  uint32_t sequence = 0;
  uint32_t binding = 0;
  uint16_t stage = 0;
  std::span<const Run> runs;
  uint32_t columns = 0;       // of hidden rows; 0: none expected
  DType dtype = DType::kF16;  // of hidden rows; not compared in a result without them
  uint32_t vocabulary = 0;    // columns of kLogits
};
// OK, or an error that names the first field that differs, its value and what was expected.
Status CheckFrame(const Frame& frame, const ExpectedFrame& expected);

}  // namespace weft::wire
