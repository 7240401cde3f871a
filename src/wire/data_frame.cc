#include "wire/data_frame.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/marks.h"
#include "base/sentence.h"

namespace weft::wire {
namespace {

constexpr size_t kArgmaxBytes = 12;
constexpr size_t kCandidatesHeadBytes = 12;
constexpr size_t kDrawHeadBytes = 12;
constexpr size_t kCandidateBytes = 8;
constexpr uint32_t kQueueUnitUs = 100;

Error Malformed(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

bool IsElementDType(uint8_t dtype) {
  return dtype == static_cast<uint8_t>(DType::kF32) || dtype == static_cast<uint8_t>(DType::kF16) ||
         dtype == static_cast<uint8_t>(DType::kBF16) || dtype == static_cast<uint8_t>(DType::kI32);
}

Result<FrameHeader> DecodeHeader(const uint8_t* at) {
  const uint32_t magic = LoadLe<uint32_t>(at);
  if (magic != kFrameMagic)
    return Malformed(Sentence("The frame begins with the number ", magic, ", expected ",
                              kFrameMagic, " (\"WEFT\")."));
  const uint16_t version = LoadLe<uint16_t>(at + 4);
  if (version != kProtocolVersion)
    return Malformed(
        Sentence("The frame has protocol version ", version, ", expected ", kProtocolVersion, "."));
  if (at[6] != static_cast<uint8_t>(FrameType::kStep) &&
      at[6] != static_cast<uint8_t>(FrameType::kResult))
    return Malformed(
        Sentence("The frame has type ", int{at[6]}, ", expected 1 (step) or 2 (result)."));
  if (at[7] != 0) return Malformed(Sentence("The frame has flags ", int{at[7]}, ", expected 0."));
  if (!IsElementDType(at[32]))
    return Malformed(Sentence("The frame has element type ", int{at[32]},
                              ", expected 0 (f32), 1 (f16), 2 (bf16) or 3 (i32)."));
  if (at[33] != 0)
    return Malformed(Sentence("The frame's reserved byte is ", int{at[33]}, ", expected 0."));
  FrameHeader header;
  header.type = static_cast<FrameType>(at[6]);
  header.sequence = LoadLe<uint32_t>(at + 12);
  header.binding = LoadLe<uint32_t>(at + 16);
  header.stage = LoadLe<uint16_t>(at + 20);
  header.rows = LoadLe<uint32_t>(at + 24);
  header.columns = LoadLe<uint32_t>(at + 28);
  header.dtype = static_cast<DType>(at[32]);
  header.queue_us = uint32_t{LoadLe<uint16_t>(at + 34)} * kQueueUnitUs;
  header.compute_us = LoadLe<uint32_t>(at + 36);
  if (header.type == FrameType::kStep && (header.queue_us != 0 || header.compute_us != 0))
    return Malformed(Sentence("The step carries times (queue ", header.queue_us, " us, compute ",
                              header.compute_us, " us), expected 0."));
  return header;
}

Result<Run> DecodeRun(const uint8_t* at, size_t index) {
  Run run;
  run.session = LoadLe<uint32_t>(at);
  run.generation = LoadLe<uint32_t>(at + 4);
  run.first_position = LoadLe<uint32_t>(at + 8);
  run.count = LoadLe<uint16_t>(at + 12);
  if (run.count == 0)
    return Malformed(Sentence("Run ", index, " has 0 rows, expected 1 to 65535."));
  if (!CheckedAdd<uint32_t>(run.first_position, run.count))
    return Malformed(Sentence("Run ", index, " begins at position ", run.first_position,
                              " and has ", run.count,
                              " rows, which passes the last position 4294967295."));
  const int output = at[14] & 15;
  if (output > static_cast<int>(OutputKind::kDraw))
    return Malformed(
        Sentence("Run ", index, " asks for output kind ", output, ", expected 0 to 5."));
  run.output = static_cast<OutputKind>(output);
  run.marks = at[14] >> 4;
  if (run.marks > kMaxMarks)
    return Malformed(Sentence("Run ", index, " asks for ", int{run.marks},
                              " marks, expected at most ", kMaxMarks, "."));
  if (run.output == OutputKind::kCandidates) {
    run.candidate_count = static_cast<uint16_t>(at[15] + 1);
  } else if (run.output == OutputKind::kDraw) {
    run.candidate_count = at[15];
    if (run.candidate_count > sampling::kMaxTopLogprobs)
      return Malformed(Sentence("Run ", index, " asks for ", run.candidate_count,
                                " tokens beside a draw, expected at most ",
                                sampling::kMaxTopLogprobs, "."));
  } else if (at[15] != 0) {
    return Malformed(Sentence("Run ", index, " has candidate byte ", int{at[15]},
                              " though its output is neither candidates nor a draw, expected 0."));
  }
  return run;
}

Status CheckSessionsDistinct(std::span<const Run> runs) {
  if (runs.size() < 2) return OkStatus();
  std::vector<uint32_t> sessions;
  sessions.reserve(runs.size());
  for (const Run& run : runs) sessions.push_back(run.session);
  std::sort(sessions.begin(), sessions.end());
  const auto twice = std::adjacent_find(sessions.begin(), sessions.end());
  if (twice == sessions.end()) return OkStatus();
  return Malformed(
      Sentence("Session ", *twice, " is named by two runs of a frame, expected one each."));
}

Status CheckStepPayload(const FrameHeader& header, uint64_t payload_bytes) {
  if (header.columns == 0) return Malformed("The step has 0 columns, expected at least 1.");
  if (header.dtype == DType::kI32 && header.columns != 1)
    return Malformed(
        Sentence("The step has ", header.columns, " columns of token ids, expected 1."));
  const uint64_t row_bytes =
      uint64_t{header.columns} * static_cast<uint64_t>(ElementBytes(header.dtype));
  const auto expected = CheckedMul<uint64_t>(row_bytes, header.rows);
  if (!expected || *expected != payload_bytes)
    return Malformed(Sentence("The step's payload has ", payload_bytes, " bytes, expected ",
                              header.rows, " rows of ", row_bytes, " bytes."));
  return OkStatus();
}

Status CheckResultPayload(const FrameHeader& header, std::span<const Run> runs,
                          uint64_t payload_bytes) {
  bool hidden = false, selected = false;
  uint64_t logit_rows = 0;
  for (const Run& run : runs) {
    if (run.output == OutputKind::kHidden)
      hidden = true;
    else if (run.output != OutputKind::kNone)
      selected = true;
    if (run.output == OutputKind::kLogits) logit_rows += run.count;
  }
  if (hidden && selected)
    return Malformed("The result mixes hidden rows with other outputs in one frame.");
  if (hidden != (header.columns != 0))
    return Malformed(Sentence("The result has ", header.columns, " columns, expected ",
                              hidden ? "at least 1 because it holds hidden rows."
                                     : "0 because it holds no hidden rows."));
  if (hidden && header.dtype == DType::kI32)
    return Malformed("The result's hidden rows have element type i32, expected f16, bf16 or f32.");
  // Without the vocabulary only the part in front of the logits is known; CheckFrame knows the
  // rest.
  const uint64_t known = ResultPayloadBytes(runs, header.columns, header.dtype, 0);
  if (logit_rows == 0 ? payload_bytes != known
                      : payload_bytes < known || (payload_bytes - known) % (logit_rows * 4) != 0)
    return Malformed(Sentence("The result's payload has ", payload_bytes, " bytes, expected ",
                              known, logit_rows == 0 ? "." : " and whole rows of logits."));
  return OkStatus();
}

Status CheckFinite(float value, std::string_view what) {
  if (std::isfinite(value)) return OkStatus();
  return Malformed(
      Sentence("The ", what, " of a result is ", value, ", expected a finite number."));
}

Status CheckTokenId(uint32_t token_id, uint32_t vocabulary) {
  if (token_id < vocabulary) return OkStatus();
  return Malformed(
      Sentence("A result names token ", token_id, ", expected less than ", vocabulary, "."));
}

void AppendList(std::span<const sampling::TokenLogit> list, std::vector<uint8_t>& out) {
  size_t at = out.size();
  out.resize(at + kCandidateBytes * list.size());
  for (const sampling::TokenLogit& candidate : list) {
    StoreLe<uint32_t>(&out[at], static_cast<uint32_t>(candidate.token_id));
    StoreLe<float>(&out[at + 4], candidate.logit);
    at += kCandidateBytes;
  }
}

// REQUIRES: whole entries.
Result<std::vector<sampling::TokenLogit>> DecodeList(ByteSpan bytes, uint32_t vocabulary) {
  std::vector<sampling::TokenLogit> list;
  list.reserve(bytes.size() / kCandidateBytes);
  for (size_t at = 0; at < bytes.size(); at += kCandidateBytes) {
    const uint32_t token_id = LoadLe<uint32_t>(bytes.data() + at);
    const float logit = LoadLe<float>(bytes.data() + at + 4);
    TRY(CheckTokenId(token_id, vocabulary));
    TRY(CheckFinite(logit, "logit"));
    if (!list.empty() && logit > list.back().logit)
      return Malformed(Sentence("Candidate ", list.size(), " has logit ", logit,
                                ", expected at most ", list.back().logit,
                                " as the one before it."));
    list.push_back({static_cast<int32_t>(token_id), logit});
  }
  return list;
}

std::string RunText(const Run& run) {
  return Sentence("session ", run.session, " generation ", run.generation, " position ",
                  run.first_position, " rows ", run.count, " output ", static_cast<int>(run.output),
                  " candidates ", run.candidate_count, " marks ", int{run.marks});
}

template <typename T>
Status CheckField(std::string_view name, T actual, T expected) {
  if (actual == expected) return OkStatus();
  return Malformed(Sentence("The frame's ", name, " is ", actual, ", expected ", expected, "."));
}

}  // namespace

std::vector<uint8_t> EncodeFrameHead(const FrameHeader& header, std::span<const Run> runs,
                                     size_t payload_bytes) {
  CHECK(!runs.empty() && runs.size() <= 65535);
  const size_t after_header = runs.size() * kRunBytes + payload_bytes;
  CHECK(after_header <= UINT32_MAX);
  std::vector<uint8_t> head(kHeaderBytes + runs.size() * kRunBytes);
  uint8_t* at = head.data();
  StoreLe<uint32_t>(at, kFrameMagic);
  StoreLe<uint16_t>(at + 4, static_cast<uint16_t>(kProtocolVersion));
  at[6] = static_cast<uint8_t>(header.type);
  StoreLe<uint32_t>(at + 8, static_cast<uint32_t>(after_header));
  StoreLe<uint32_t>(at + 12, header.sequence);
  StoreLe<uint32_t>(at + 16, header.binding);
  StoreLe<uint16_t>(at + 20, header.stage);
  StoreLe<uint16_t>(at + 22, static_cast<uint16_t>(runs.size()));
  StoreLe<uint32_t>(at + 24, header.rows);
  StoreLe<uint32_t>(at + 28, header.columns);
  at[32] = static_cast<uint8_t>(header.dtype);
  StoreLe<uint16_t>(at + 34,
                    static_cast<uint16_t>(std::min(header.queue_us / kQueueUnitUs, 65535u)));
  StoreLe<uint32_t>(at + 36, header.compute_us);
  at += kHeaderBytes;
  uint64_t rows = 0;
  for (const Run& run : runs) {
    const bool candidates = run.output == OutputKind::kCandidates;
    CHECK(run.count >= 1);
    CHECK(candidates ? run.candidate_count >= 1 && run.candidate_count <= 256
                     : run.candidate_count <=
                           (run.output == OutputKind::kDraw ? sampling::kMaxTopLogprobs : 0));
    StoreLe<uint32_t>(at, run.session);
    StoreLe<uint32_t>(at + 4, run.generation);
    StoreLe<uint32_t>(at + 8, run.first_position);
    StoreLe<uint16_t>(at + 12, run.count);
    CHECK(run.marks <= kMaxMarks);
    at[14] = static_cast<uint8_t>(static_cast<int>(run.output) | run.marks << 4);
    at[15] = static_cast<uint8_t>(candidates ? run.candidate_count - 1 : run.candidate_count);
    at += kRunBytes;
    rows += run.count;
  }
  CHECK(rows == header.rows);
  return head;
}

Result<Frame> DecodeFrame(Slice message) {
  const ByteSpan bytes = message.bytes();
  if (bytes.size() < kHeaderBytes)
    return Malformed(
        Sentence("The frame has ", bytes.size(), " bytes, expected at least ", kHeaderBytes, "."));
  Frame frame;
  ASSIGN_OR_RETURN(frame.header, DecodeHeader(bytes.data()));
  const uint32_t after_header = LoadLe<uint32_t>(bytes.data() + 8);
  if (after_header != bytes.size() - kHeaderBytes)
    return Malformed(Sentence("The frame announces ", after_header,
                              " bytes after its header, expected ", bytes.size() - kHeaderBytes,
                              " as the message holds."));
  const size_t run_count = LoadLe<uint16_t>(bytes.data() + 22);
  if (run_count == 0 || run_count * kRunBytes > after_header)
    return Malformed(Sentence("The frame has ", run_count, " runs, expected 1 to ",
                              after_header / kRunBytes, " that fit in it."));
  frame.runs.reserve(run_count);
  uint64_t rows = 0;
  for (size_t i = 0; i < run_count; ++i) {
    ASSIGN_OR_RETURN(const Run run, DecodeRun(bytes.data() + kHeaderBytes + i * kRunBytes, i));
    rows += run.count;
    frame.runs.push_back(run);
  }
  if (rows != frame.header.rows)
    return Malformed(Sentence("The frame has ", frame.header.rows, " rows, expected ", rows,
                              " as its runs count."));
  TRY(CheckSessionsDistinct(frame.runs));
  const size_t payload_offset = kHeaderBytes + run_count * kRunBytes;
  const size_t payload_bytes = bytes.size() - payload_offset;
  if (frame.header.type == FrameType::kStep) {
    TRY(CheckStepPayload(frame.header, payload_bytes));
  } else {
    TRY(CheckResultPayload(frame.header, frame.runs, payload_bytes));
  }
  frame.payload = message.Sub(payload_offset, payload_bytes);
  return frame;
}

uint64_t ResultPayloadBytes(std::span<const Run> runs, uint32_t columns, DType dtype,
                            uint32_t vocabulary) {
  // One run stays below 2^50; the sum of 65535 of them saturates instead of wrapping.
  uint64_t total = 0;
  const auto add = [&total](uint64_t bytes) {
    total = CheckedAdd<uint64_t>(total, bytes).value_or(UINT64_MAX);
  };
  for (const Run& run : runs) {
    switch (run.output) {
      case OutputKind::kNone:
        break;
      case OutputKind::kHidden:
        add(uint64_t{run.count} * columns * static_cast<uint64_t>(ElementBytes(dtype)));
        break;
      case OutputKind::kArgmax:
        add(kArgmaxBytes);
        break;
      case OutputKind::kCandidates:
        add(kCandidatesHeadBytes + kCandidateBytes * run.candidate_count);
        break;
      case OutputKind::kDraw:
        add(kDrawHeadBytes + kCandidateBytes * run.candidate_count);
        break;
      case OutputKind::kLogits:
        add(uint64_t{run.count} * vocabulary * sizeof(float));
        break;
    }
  }
  return total;
}

void AppendArgmax(const ArgmaxResult& result, std::vector<uint8_t>& out) {
  const size_t at = out.size();
  out.resize(at + kArgmaxBytes);
  StoreLe<uint32_t>(&out[at], static_cast<uint32_t>(result.token_id));
  StoreLe<float>(&out[at + 4], result.logit);
  StoreLe<float>(&out[at + 8], result.margin);
}

void AppendCandidates(const CandidatesResult& result, std::vector<uint8_t>& out) {
  const size_t at = out.size();
  out.resize(at + kCandidatesHeadBytes);
  StoreLe<uint32_t>(&out[at], static_cast<uint32_t>(result.candidates.size()));
  StoreLe<float>(&out[at + 4], result.logsumexp);
  StoreLe<float>(&out[at + 8], result.scaled_sum);
  AppendList(result.candidates, out);
}

void AppendDraw(const DrawResult& result, std::vector<uint8_t>& out) {
  const size_t at = out.size();
  out.resize(at + kDrawHeadBytes);
  StoreLe<uint32_t>(&out[at], static_cast<uint32_t>(result.drawn.token_id));
  StoreLe<float>(&out[at + 4], result.drawn.logit);
  StoreLe<float>(&out[at + 8], result.logsumexp);
  AppendList(result.best, out);
}

Result<ArgmaxResult> DecodeArgmax(ByteSpan payload, uint32_t vocabulary) {
  if (payload.size() != kArgmaxBytes)
    return Malformed(
        Sentence("An argmax result has ", payload.size(), " bytes, expected ", kArgmaxBytes, "."));
  const uint32_t token_id = LoadLe<uint32_t>(payload.data());
  TRY(CheckTokenId(token_id, vocabulary));
  ArgmaxResult result;
  result.token_id = static_cast<int32_t>(token_id);
  result.logit = LoadLe<float>(payload.data() + 4);
  result.margin = LoadLe<float>(payload.data() + 8);
  TRY(CheckFinite(result.logit, "logit"));
  TRY(CheckFinite(result.margin, "margin"));
  if (result.margin < 0)
    return Malformed(
        Sentence("The margin of a result is ", result.margin, ", expected at least 0."));
  return result;
}

Result<CandidatesResult> DecodeCandidates(ByteSpan payload, uint32_t candidate_count,
                                          uint32_t vocabulary) {
  const size_t expected = kCandidatesHeadBytes + kCandidateBytes * candidate_count;
  if (payload.size() != expected)
    return Malformed(Sentence("A result with candidates has ", payload.size(), " bytes, expected ",
                              expected, "."));
  const uint32_t count = LoadLe<uint32_t>(payload.data());
  if (count != candidate_count)
    return Malformed(
        Sentence("A result has ", count, " candidates, expected ", candidate_count, "."));
  CandidatesResult result;
  result.logsumexp = LoadLe<float>(payload.data() + 4);
  TRY(CheckFinite(result.logsumexp, "logsumexp"));
  result.scaled_sum = LoadLe<float>(payload.data() + 8);
  TRY(CheckFinite(result.scaled_sum, "sum of scaled probabilities"));
  // The best token alone counts 1.
  if (result.scaled_sum < 0.999f)
    return Malformed(Sentence("The sum of scaled probabilities of a result is ", result.scaled_sum,
                              ", expected at least 1."));
  ASSIGN_OR_RETURN(result.candidates,
                   DecodeList(payload.subspan(kCandidatesHeadBytes), vocabulary));
  return result;
}

Result<DrawResult> DecodeDraw(ByteSpan payload, uint32_t best_count, uint32_t vocabulary) {
  const size_t expected = kDrawHeadBytes + kCandidateBytes * best_count;
  if (payload.size() != expected)
    return Malformed(
        Sentence("A result of a draw has ", payload.size(), " bytes, expected ", expected, "."));
  DrawResult result;
  const uint32_t token_id = LoadLe<uint32_t>(payload.data());
  TRY(CheckTokenId(token_id, vocabulary));
  result.drawn = {static_cast<int32_t>(token_id), LoadLe<float>(payload.data() + 4)};
  TRY(CheckFinite(result.drawn.logit, "logit"));
  result.logsumexp = LoadLe<float>(payload.data() + 8);
  TRY(CheckFinite(result.logsumexp, "logsumexp"));
  ASSIGN_OR_RETURN(result.best, DecodeList(payload.subspan(kDrawHeadBytes), vocabulary));
  return result;
}

Status CheckFrame(const Frame& frame, const ExpectedFrame& expected) {
  const FrameHeader& header = frame.header;
  TRY(CheckField("type", static_cast<int>(header.type), static_cast<int>(expected.type)));
  TRY(CheckField("sequence", header.sequence, expected.sequence));
  TRY(CheckField("binding", header.binding, expected.binding));
  TRY(CheckField("stage", header.stage, expected.stage));
  TRY(CheckField("number of runs", frame.runs.size(), expected.runs.size()));
  for (size_t i = 0; i < frame.runs.size(); ++i) {
    if (frame.runs[i] == expected.runs[i]) continue;
    return Malformed(Sentence("Run ", i, " of the frame is ", RunText(frame.runs[i]), ", expected ",
                              RunText(expected.runs[i]), "."));
  }
  TRY(CheckField("number of columns", header.columns, expected.columns));
  if (expected.columns != 0 && header.dtype != expected.dtype)
    return Malformed(Sentence("The frame's element type is ", DTypeName(header.dtype),
                              ", expected ", DTypeName(expected.dtype), "."));
  const uint64_t payload_bytes =
      ResultPayloadBytes(expected.runs, expected.columns, expected.dtype, expected.vocabulary);
  if (header.type == FrameType::kResult)
    TRY(CheckField("payload length", uint64_t{frame.payload.byte_count()}, payload_bytes));
  return OkStatus();
}

}  // namespace weft::wire
