#include "wire/expert_frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/sentence.h"

namespace weft::wire {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'M', 'o', 'E', 'x'};
constexpr size_t kHeartbeatBytes = 20;
constexpr float kMostF16 = 65504;

constexpr uint8_t kSameRowsFlag = 2, kFailedFlag = 8, kSumFlag = 16, kMayLoseFlag = 32,
                  kBestFlag = 64, kStepsFlag = 128;

Error Malformed(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

const char* NameOf(ExpertFrameType type) {
  switch (type) {
    case ExpertFrameType::kDispatch:
      return "dispatch";
    case ExpertFrameType::kResult:
      return "result";
    case ExpertFrameType::kCancel:
      return "cancel";
    case ExpertFrameType::kHeartbeat:
      return "heartbeat";
    case ExpertFrameType::kChannel:
      return "channel";
    case ExpertFrameType::kReady:
      return "channel's answer";
    case ExpertFrameType::kRows:
      return "row message";
    case ExpertFrameType::kGiven:
      return "row message's answer";
  }
  return "unknown";
}

bool HasTensor(const ExpertFrame& frame) {
  switch (frame.type) {
    case ExpertFrameType::kDispatch:
    case ExpertFrameType::kRows:
      return true;
    case ExpertFrameType::kResult:
    case ExpertFrameType::kGiven:
      return !frame.failed;
    default:
      return false;
  }
}

// At most 2^16 * 2^18 * 2^2.
uint64_t TensorBytes(const ExpertFrame& frame) {
  const bool has_routes = frame.type == ExpertFrameType::kRows;
  const uint64_t columns = frame.hidden + (has_routes ? RouteColumns(frame.expert) : 0);
  return uint64_t{frame.tokens} * RowBytes(frame.row_type, columns);
}

// Whether rows of the frame may be of this type.
bool MayHave(ExpertFrameType frame, RowType type) {
  if (type == RowType::kF32) return true;
  if (frame == ExpertFrameType::kDispatch)
    return type == RowType::kF16 || type == RowType::kIntegers;
  return frame == ExpertFrameType::kResult && (type == RowType::kF16 || type == RowType::kSteps);
}

const char* RowTypesOf(ExpertFrameType frame) {
  if (frame == ExpertFrameType::kDispatch) return "5 (f32) or 6 (f16), or 8 (integers)";
  return frame == ExpertFrameType::kResult ? "5 (f32) or 6 (f16), or 7 (steps)" : "5 (f32)";
}

Slice AddedBytes(const std::vector<uint16_t>& added) {
  std::vector<uint8_t> bytes(sizeof(uint16_t) * (added.size() + 1));
  for (size_t i = 0; i < added.size(); ++i) StoreLe<uint16_t>(&bytes[2 * i], added[i]);
  StoreLe<uint16_t>(&bytes[2 * added.size()], static_cast<uint16_t>(added.size()));
  return Slice(std::move(bytes));
}

// Takes them off the end of a result's payload.
Status TakeAdded(ExpertFrame& frame, Slice& payload) {
  const size_t size = payload.byte_count();
  const size_t count = size < 2 ? 0 : LoadLe<uint16_t>(payload.bytes().data() + size - 2);
  const size_t byte_count = sizeof(uint16_t) * (count + 1);
  if (count == 0 || byte_count > size)
    return Malformed(Sentence("It is a sum of ", count, " more experts in a payload of ", size,
                              " bytes, expected at least 1 that it names."));
  uint32_t before = frame.expert;
  for (size_t i = 0; i < count; ++i) {
    const auto expert = LoadLe<uint16_t>(payload.bytes().data() + size - byte_count + 2 * i);
    if (expert <= before)
      return Malformed(Sentence("It is a sum that names expert ", expert, " after ", before,
                                ", expected rising numbers."));
    frame.added.push_back(expert);
    before = expert;
  }
  payload = payload.Sub(0, size - byte_count);
  return OkStatus();
}

// Heads of all frames in one buffer; pieces of it stand between the payloads.
class Encoder {
 public:
  Encoder(uint32_t peer, std::span<const ExpertFrame> frames) {
    auto heads = std::make_shared<std::vector<uint8_t>>(kShardHeadBytes +
                                                        kExpertHeaderBytes * frames.size());
    (*heads)[0] = kShardByte;
    StoreLe<uint32_t>(heads->data() + 1, peer);
    heads_ = std::move(heads);
    end_ = kShardHeadBytes;
  }

  void Append(const ExpertFrame& frame) {
    uint8_t flags = 0;
    std::vector<Slice> payload;
    if (HasTensor(frame)) {
      CHECK(frame.tokens >= 1 && frame.tokens <= kMaxFrameTokens && frame.hidden >= 1);
      CHECK(frame.same_rows || frame.rows.byte_count() == TensorBytes(frame));
      if (frame.same_rows)
        flags |= kSameRowsFlag;
      else
        payload.push_back(frame.rows);
      if (frame.may_sum) flags |= kSumFlag;
      if (frame.may_lose && frame.type == ExpertFrameType::kDispatch) flags |= kMayLoseFlag;
      if (frame.best && frame.type == ExpertFrameType::kDispatch) flags |= kBestFlag;
      if (frame.takes_steps && frame.type == ExpertFrameType::kDispatch) flags |= kStepsFlag;
      if (!frame.added.empty()) {
        flags |= kSumFlag;
        payload.push_back(AddedBytes(frame.added));
      }
    } else {
      CHECK(frame.tokens == 0 && frame.hidden == 0);
      if (frame.failed) flags |= kFailedFlag;
      payload.push_back(frame.body);
    }
    Head(frame, flags, payload);
  }

  std::vector<Slice> Finish() {
    Flush();
    return std::move(pieces_);
  }

 private:
  void Head(const ExpertFrame& frame, uint8_t flags, const std::vector<Slice>& payload) {
    size_t payload_bytes = 0;
    for (const Slice& part : payload) payload_bytes += part.byte_count();
    uint8_t* at = heads_->data() + end_;
    std::copy(kMagic.begin(), kMagic.end(), at);
    StoreLe<uint16_t>(at + 4, kExpertFrameVersion);
    StoreLe<uint16_t>(at + 6, static_cast<uint16_t>(frame.type));
    StoreLe<uint32_t>(at + 8, static_cast<uint32_t>(payload_bytes));
    StoreLe<uint32_t>(at + 12, frame.sequence);
    StoreLe<uint16_t>(at + 16, frame.layer);
    StoreLe<uint16_t>(at + 18, frame.expert);
    StoreLe<uint32_t>(at + 20, frame.tokens);
    StoreLe<uint16_t>(at + 24, frame.hidden);
    at[26] = HasTensor(frame) ? static_cast<uint8_t>(frame.row_type) : 0;
    at[27] = flags;
    end_ += kExpertHeaderBytes;
    for (const Slice& part : payload) {
      if (part.empty()) continue;
      Flush();
      pieces_.push_back(part);
    }
  }

  void Flush() {
    if (end_ == begin_) return;
    pieces_.emplace_back(heads_, ByteSpan(*heads_).subspan(begin_, end_ - begin_));
    begin_ = end_;
  }

  std::shared_ptr<std::vector<uint8_t>> heads_;
  size_t begin_ = 0, end_ = 0;  // of the heads that are in no piece yet
  std::vector<Slice> pieces_;
};

class Decoder {
 public:
  explicit Decoder(const Slice& message) : message_(message), at_(kShardHeadBytes) {}

  Result<std::vector<ExpertFrame>> Frames() {
    std::vector<ExpertFrame> frames;
    while (at_ < message_.byte_count() || frames.empty()) {
      if (frames.size() == kMaxShardFrames)
        return Malformed(Sentence("The shard message has more than ", kMaxShardFrames,
                                  " frames, expected at most that many."));
      Result<ExpertFrame> frame = Next(frames.empty() ? nullptr : &frames.back());
      if (!frame.ok())
        return Malformed(Sentence("Frame ", frames.size(), " of the shard message is refused. ",
                                  frame.error().message()));
      frames.push_back(std::move(*frame));
      if (frames.size() > 1 && (frames.front().type == ExpertFrameType::kChannel ||
                                frames.back().type == ExpertFrameType::kChannel))
        return Malformed("The shard message has a channel beside other frames, expected it alone.");
    }
    return frames;
  }

 private:
  Result<ExpertFrame> Next(const ExpertFrame* before) {
    const size_t left = message_.byte_count() - at_;
    if (left < kExpertHeaderBytes)
      return Malformed(
          Sentence("It has ", left, " bytes, expected at least ", kExpertHeaderBytes, "."));
    const uint8_t* head = message_.bytes().data() + at_;
    if (!std::equal(kMagic.begin(), kMagic.end(), head))
      return Malformed(Sentence("It begins with the bytes ", ToHex({head, 4}),
                                ", expected 4d6f4578 (\"MoEx\")."));
    const uint16_t version = LoadLe<uint16_t>(head + 4);
    if (version != kExpertFrameVersion)
      return Malformed(
          Sentence("It has version ", version, ", expected ", kExpertFrameVersion, "."));
    const uint16_t type = LoadLe<uint16_t>(head + 6);
    if (type < 1 || type > static_cast<uint16_t>(ExpertFrameType::kGiven) || type == 5)
      return Malformed(Sentence("It has type ", type, ", expected 1 to 4 or 6 to 9."));
    const uint32_t payload_bytes = LoadLe<uint32_t>(head + 8);
    if (payload_bytes > left - kExpertHeaderBytes)
      return Malformed(Sentence("It announces ", payload_bytes, " bytes of payload, expected ",
                                "at most the ", left - kExpertHeaderBytes, " that follow."));
    ExpertFrame frame;
    frame.type = static_cast<ExpertFrameType>(type);
    frame.sequence = LoadLe<uint32_t>(head + 12);
    frame.layer = LoadLe<uint16_t>(head + 16);
    frame.expert = LoadLe<uint16_t>(head + 18);
    frame.tokens = LoadLe<uint32_t>(head + 20);
    frame.hidden = LoadLe<uint16_t>(head + 24);
    const Slice payload = message_.Sub(at_ + kExpertHeaderBytes, payload_bytes);
    at_ += kExpertHeaderBytes + payload_bytes;
    TRY(CheckFlags(frame.type, head[27]));
    frame.failed = (head[27] & kFailedFlag) != 0;
    if (!HasTensor(frame)) {
      TRY(ReadBody(frame, head[26], payload));
      return frame;
    }
    frame.row_type = RowType{head[26]};
    if (!MayHave(frame.type, frame.row_type))
      return Malformed(Sentence("Its rows have element type ", int{head[26]}, ", expected ",
                                RowTypesOf(frame.type), "."));
    TRY(ReadTensor(frame, head[27], payload, before));
    return frame;
  }

  static Status CheckFlags(ExpertFrameType type, uint8_t flags) {
    uint8_t known = 0;
    if (type == ExpertFrameType::kDispatch)
      known = kSameRowsFlag | kSumFlag | kMayLoseFlag | kBestFlag | kStepsFlag;
    if (type == ExpertFrameType::kResult)
      known = (flags & kFailedFlag) != 0 ? kFailedFlag : kSumFlag;
    if (type == ExpertFrameType::kGiven) known = kFailedFlag;
    if (flags & ~known)
      return Malformed(Sentence("It is a ", NameOf(type), " with flags ", int{flags},
                                ", expected none but those of ", int{known}, "."));
    return OkStatus();
  }

  // Of a frame without a tensor.
  static Status ReadBody(ExpertFrame& frame, uint8_t dtype, const Slice& payload) {
    if (frame.tokens != 0 || frame.hidden != 0 || dtype != 0)
      return Malformed(Sentence("It is a ", NameOf(frame.type), frame.failed ? " that failed" : "",
                                " with ", frame.tokens, " tokens of ", frame.hidden,
                                " columns and element type ", int{dtype}, ", expected 0 of each."));
    const bool of_expert = frame.type == ExpertFrameType::kResult ||
                           frame.type == ExpertFrameType::kCancel ||
                           frame.type == ExpertFrameType::kGiven;
    if (!of_expert && (frame.layer != 0 || frame.expert != 0))
      return Malformed(Sentence("It is a ", NameOf(frame.type), " of layer ", frame.layer,
                                " and expert ", frame.expert, ", expected 0 and 0."));
    size_t least = 0, most = 0;
    if (frame.failed) least = 1, most = kMaxFailureBytes;
    if (frame.type == ExpertFrameType::kHeartbeat) least = most = kHeartbeatBytes;
    if (frame.type == ExpertFrameType::kChannel)
      least = kLeastChannelBytes, most = kMostChannelBytes;
    if (frame.type == ExpertFrameType::kReady) least = most = kReadyBytes;
    if (payload.byte_count() < least || payload.byte_count() > most)
      return Malformed(Sentence("It is a ", NameOf(frame.type), " with ", payload.byte_count(),
                                " bytes of payload, expected ", least,
                                least == most ? "." : Sentence(" to ", most, ".")));
    frame.body = payload;
    return OkStatus();
  }

  // Of integers: what nobody could have written is read as nonsense.
  static Status CheckRows(const ExpertFrame& frame) {
    if (frame.row_type != RowType::kIntegers) return OkStatus();
    const size_t row_bytes = IntegerRowBytes(frame.hidden);
    for (uint32_t row = 0; row < frame.tokens; ++row)
      TRY(CheckIntegerRow(frame.rows.bytes().data() + row * row_bytes, frame.hidden));
    return OkStatus();
  }

  Status ReadTensor(ExpertFrame& frame, uint8_t flags, Slice payload, const ExpertFrame* before) {
    if (frame.tokens == 0 || frame.tokens > kMaxFrameTokens || frame.hidden == 0)
      return Malformed(Sentence("It has ", frame.tokens, " tokens of ", frame.hidden,
                                " columns, expected 1 to ", kMaxFrameTokens,
                                " tokens of at least 1 column."));
    const uint64_t row_bytes = TensorBytes(frame);
    // The answers to integers are longer than these.
    row_bytes_ += std::max(
        row_bytes, uint64_t{frame.tokens} * RowBytes(AnswerType(frame.row_type), frame.hidden));
    if (row_bytes_ > kMaxShardRowBytes)
      return Malformed(Sentence("With it the message holds rows of ", row_bytes_,
                                " bytes, expected at most ", kMaxShardRowBytes, "."));
    if (frame.row_type == RowType::kF16 && (flags & ~kSameRowsFlag) != 0)
      return Malformed(Sentence("It has rows of f16 and flags ", int{flags},
                                ", expected none but those of ", int{kSameRowsFlag}, "."));
    frame.may_sum = (flags & kSumFlag) != 0 && frame.type == ExpertFrameType::kDispatch;
    frame.may_lose = (flags & kMayLoseFlag) != 0;
    frame.best = (flags & kBestFlag) != 0;
    frame.takes_steps = (flags & kStepsFlag) != 0;
    if ((flags & kSumFlag) && !frame.may_sum) TRY(TakeAdded(frame, payload));
    frame.same_rows = (flags & kSameRowsFlag) != 0;
    const uint64_t expected = frame.same_rows ? 0 : row_bytes;
    if (payload.byte_count() != expected)
      return Malformed(Sentence("Its rows have ", payload.byte_count(), " bytes, expected ",
                                expected,
                                frame.same_rows ? " as it repeats those before it." : "."));
    frame.rows = payload;
    if (!frame.same_rows) return CheckRows(frame);
    if (before == nullptr || before->type != ExpertFrameType::kDispatch ||
        before->sequence != frame.sequence || before->layer != frame.layer ||
        before->tokens != frame.tokens || before->hidden != frame.hidden ||
        before->row_type != frame.row_type)
      return Malformed(
          "It repeats the rows before it, expected a dispatch there with the same sequence, "
          "layer, tokens, columns and element type.");
    frame.rows = before->rows;
    return OkStatus();
  }

  const Slice& message_;
  size_t at_ = 0;
  uint64_t row_bytes_ = 0;
};

ExpertFrame Bare(ExpertFrameType type) {
  ExpertFrame frame;
  frame.type = type;
  return frame;
}

ExpertFrame AnswerTo(const ExpertFrame& asked, ExpertFrameType type) {
  ExpertFrame frame = Bare(type);
  frame.sequence = asked.sequence;
  frame.layer = asked.layer;
  frame.expert = asked.expert;
  return frame;
}

ExpertFrame Failure(ExpertFrameType type, const ExpertFrame& asked, std::string sentence) {
  CHECK(!sentence.empty());
  ExpertFrame frame = AnswerTo(asked, type);
  frame.failed = true;
  sentence.resize(std::min(sentence.size(), kMaxFailureBytes));
  frame.body = Slice::OfText(std::move(sentence));
  return frame;
}

}  // namespace

void StoreRow(std::span<const float> row, RowType type, uint8_t* out) {
  if (type == RowType::kF32) {
    for (size_t i = 0; i < row.size(); ++i) StoreLe<float>(out + i * sizeof(float), row[i]);
    return;
  }
  if (type == RowType::kIntegers) return StoreIntegerRow(row, out);
  for (size_t i = 0; i < row.size(); ++i) {
    const float value = std::isfinite(row[i]) ? std::clamp(row[i], -kMostF16, kMostF16) : row[i];
    StoreLe<uint16_t>(out + i * sizeof(uint16_t), F32ToF16(value));
  }
}

void ReadRow(const uint8_t* rows, RowType type, size_t index, std::span<float> row) {
  if (type == RowType::kIntegers)
    return ReadIntegerRow(rows + index * IntegerRowBytes(row.size()), row);
  for (size_t i = 0; i < row.size(); ++i) row[i] = RowValue(rows, type, index * row.size() + i);
}

void ReadValues(const Slice& rows, RowType type, float step, std::span<float> values) {
  const uint8_t* bytes = rows.bytes().data();
  if (type == RowType::kF32) {
    std::memcpy(values.data(), bytes, values.size_bytes());
    return;
  }
  const float unit = type == RowType::kSteps ? step : 1;
  float* out = values.data();
  for (size_t i = 0; i < values.size(); ++i) out[i] = unit * RowValue(bytes, type, i);
}

std::optional<Slice> StepsOf(const Slice& rows, float step) {
  constexpr float kMost = 0x1p23f - 1;
  const float steps_per_one = 1 / step;  // exact
  const size_t count = rows.byte_count() / sizeof(float);
  std::vector<uint8_t> bytes(count * kStepBytes);
  bool fits = true;
  for (size_t i = 0; i < count; ++i) {
    const float steps = LoadLe<float>(rows.bytes().data() + i * sizeof(float)) * steps_per_one;
    const bool is_within = steps >= -kMost && steps <= kMost;  // no NaN either
    const int32_t whole = is_within ? static_cast<int32_t>(steps) : 0;
    fits &= is_within && static_cast<float>(whole) == steps;
    const auto bits = static_cast<uint32_t>(whole);
    uint8_t* at = &bytes[i * kStepBytes];
    at[0] = static_cast<uint8_t>(bits);
    at[1] = static_cast<uint8_t>(bits >> 8);
    at[2] = static_cast<uint8_t>(bits >> 16);
  }
  if (!fits) return std::nullopt;
  return Slice(std::move(bytes));
}

std::vector<Slice> EncodeShardMessage(uint32_t peer, std::span<const ExpertFrame> frames) {
  CHECK(!frames.empty() && frames.size() <= kMaxShardFrames);
  Encoder encoder(peer, frames);
  for (const ExpertFrame& frame : frames) encoder.Append(frame);
  return encoder.Finish();
}

size_t ByteCount(std::span<const Slice> pieces) {
  size_t byte_count = 0;
  for (const Slice& piece : pieces) byte_count += piece.byte_count();
  return byte_count;
}

std::vector<uint8_t> Joined(std::span<const Slice> pieces) {
  std::vector<uint8_t> message;
  message.reserve(ByteCount(pieces));
  for (const Slice& piece : pieces)
    message.insert(message.end(), piece.bytes().begin(), piece.bytes().end());
  return message;
}

bool IsShardMessage(ByteSpan message) {
  return !message.empty() && message[0] == kShardByte;
}

bool IsChannelMessage(ByteSpan message) {
  CHECK(message.size() >= kShardHeadBytes + kExpertHeaderBytes);
  return LoadLe<uint16_t>(message.data() + kShardHeadBytes + 6) ==
         static_cast<uint16_t>(ExpertFrameType::kChannel);
}

Result<uint32_t> ShardPeer(ByteSpan message) {
  if (!IsShardMessage(message))
    return Malformed(Sentence("The message begins with ",
                              message.empty() ? "nothing" : std::to_string(int{message[0]}),
                              ", expected 2 as a shard message does."));
  if (message.size() < kShardHeadBytes + kExpertHeaderBytes)
    return Malformed(Sentence("The shard message has ", message.size(),
                              " bytes, expected at least ", kShardHeadBytes + kExpertHeaderBytes,
                              "."));
  return LoadLe<uint32_t>(message.data() + 1);
}

std::vector<Slice> WithShardPeer(const Slice& message, uint32_t peer) {
  CHECK(message.byte_count() > kShardHeadBytes);
  std::vector<uint8_t> head(kShardHeadBytes);
  head[0] = kShardByte;
  StoreLe<uint32_t>(head.data() + 1, peer);
  return {Slice(std::move(head)),
          message.Sub(kShardHeadBytes, message.byte_count() - kShardHeadBytes)};
}

Result<ShardMessage> DecodeShardMessage(const Slice& message) {
  ShardMessage decoded;
  ASSIGN_OR_RETURN(decoded.peer, ShardPeer(message.bytes()));
  ASSIGN_OR_RETURN(decoded.frames, Decoder(message).Frames());
  return decoded;
}

ExpertFrame HeartbeatFrame(const Heartbeat& heartbeat) {
  ExpertFrame frame = Bare(ExpertFrameType::kHeartbeat);
  std::vector<uint8_t> body(kHeartbeatBytes);
  StoreLe<uint32_t>(body.data(), heartbeat.waiting);
  StoreLe<uint32_t>(body.data() + 4, heartbeat.compute_us);
  StoreLe<uint64_t>(body.data() + 8, heartbeat.held_bytes);
  StoreLe<uint32_t>(body.data() + 16, heartbeat.max_message_bytes);
  frame.body = Slice(std::move(body));
  return frame;
}

ExpertFrame CancelFrame(uint32_t sequence, uint16_t layer, uint16_t expert) {
  ExpertFrame frame = Bare(ExpertFrameType::kCancel);
  frame.sequence = sequence;
  frame.layer = layer;
  frame.expert = expert;
  return frame;
}

ExpertFrame FailedResult(const ExpertFrame& dispatch, std::string sentence) {
  return Failure(ExpertFrameType::kResult, dispatch, std::move(sentence));
}

ExpertFrame GivenFrame(const ExpertFrame& rows, std::span<const float> sums) {
  CHECK(sums.size() == uint64_t{rows.tokens} * rows.hidden);
  ExpertFrame frame = AnswerTo(rows, ExpertFrameType::kGiven);
  frame.tokens = rows.tokens;
  frame.hidden = rows.hidden;
  std::vector<uint8_t> bytes(sums.size_bytes());
  StoreRow(sums, RowType::kF32, bytes.data());
  frame.rows = Slice(std::move(bytes));
  return frame;
}

ExpertFrame FailedGiven(const ExpertFrame& rows, std::string sentence) {
  return Failure(ExpertFrameType::kGiven, rows, std::move(sentence));
}

Heartbeat ReadHeartbeat(const ExpertFrame& frame) {
  CHECK(frame.type == ExpertFrameType::kHeartbeat && frame.body.byte_count() == kHeartbeatBytes);
  const uint8_t* at = frame.body.bytes().data();
  return {LoadLe<uint32_t>(at), LoadLe<uint32_t>(at + 4), LoadLe<uint64_t>(at + 8),
          LoadLe<uint32_t>(at + 16)};
}

}  // namespace weft::wire
