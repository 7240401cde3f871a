#include "wire/expert_frame.h"

#include <lz4.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/sentence.h"

namespace weft::wire {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'M', 'o', 'E', 'x'};
constexpr size_t kHeartbeatBytes = 24;
constexpr size_t kGateBytes = 2;

constexpr uint8_t kLz4Flag = 1, kSameRowsFlag = 2, kGatesFlag = 4, kFailedFlag = 8, kSumFlag = 16,
                  kMayLoseFlag = 32;
constexpr uint8_t kF16Code = 1, kBF16Code = 2, kInt8Code = 3, kInt4Code = 4, kF32Code = 5;

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
    case ExpertFrameType::kWeightSync:
      return "weight sync";
    case ExpertFrameType::kChannel:
      return "channel";
    case ExpertFrameType::kReady:
      return "channel's answer";
  }
  return "unknown";
}

uint8_t CodeOf(DType dtype) {
  if (dtype == DType::kF16) return kF16Code;
  if (dtype == DType::kBF16) return kBF16Code;
  CHECK(dtype == DType::kF32);
  return kF32Code;
}

Result<DType> DTypeOf(uint8_t code) {
  switch (code) {
    case kF16Code:
      return DType::kF16;
    case kBF16Code:
      return DType::kBF16;
    case kF32Code:
      return DType::kF32;
    case kInt8Code:
      return Malformed("Its rows are int8, expected f16, bf16 or f32.");
    case kInt4Code:
      return Malformed("Its rows are int4, expected f16, bf16 or f32.");
    default:
      return Malformed(Sentence("Its rows have element type ", int{code},
                                ", expected 1 (f16), 2 (bf16) or 5 (f32)."));
  }
}

bool HasTensor(const ExpertFrame& frame) {
  return frame.type == ExpertFrameType::kDispatch ||
         (frame.type == ExpertFrameType::kResult && !frame.failed);
}

// At most 2^16 * 2^16 * 2^2.
uint64_t RowBytes(const ExpertFrame& frame) {
  return uint64_t{frame.tokens} * frame.hidden * static_cast<uint64_t>(ElementBytes(frame.dtype));
}

// nullopt where LZ4 does not make the rows shorter.
std::optional<Slice> Compressed(const Slice& rows) {
  if (rows.byte_count() < 2 || rows.byte_count() > LZ4_MAX_INPUT_SIZE) return std::nullopt;
  std::vector<uint8_t> out(rows.byte_count() - 1);
  const int written = LZ4_compress_default(
      reinterpret_cast<const char*>(rows.bytes().data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(rows.byte_count()), static_cast<int>(out.size()));
  if (written <= 0) return std::nullopt;
  out.resize(static_cast<size_t>(written));
  return Slice(std::move(out));
}

Result<Slice> Decompressed(ByteSpan block, uint64_t row_bytes) {
  if (block.size() >= row_bytes)
    return Malformed(Sentence("Its compressed rows have ", block.size(), " bytes, expected less ",
                              "than the ", row_bytes, " that they are."));
  std::vector<uint8_t> rows(row_bytes);
  const int read = LZ4_decompress_safe(
      reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(rows.data()),
      static_cast<int>(block.size()), static_cast<int>(rows.size()));
  if (read < 0 || static_cast<uint64_t>(read) != row_bytes)
    return Malformed(Sentence("Its rows are no LZ4 block of the expected ", row_bytes, " bytes."));
  return Slice(std::move(rows));
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

  void Append(const ExpertFrame& frame, RowCompression compression) {
    uint8_t flags = 0;
    std::vector<Slice> payload;
    if (HasTensor(frame)) {
      CHECK(frame.tokens >= 1 && frame.tokens <= kMaxFrameTokens && frame.hidden >= 1);
      CHECK(frame.same_rows || frame.rows.byte_count() == RowBytes(frame));
      if (frame.same_rows) {
        flags |= kSameRowsFlag;
      } else {
        std::optional<Slice> shorter;
        if (compression == RowCompression::kLz4) shorter = Compressed(frame.rows);
        if (shorter) flags |= kLz4Flag;
        payload.push_back(shorter ? *shorter : frame.rows);
      }
      if (!frame.gates.empty()) {
        CHECK(frame.gates.byte_count() == kGateBytes * frame.tokens);
        flags |= kGatesFlag;
        payload.push_back(frame.gates);
      }
      if (frame.may_sum) flags |= kSumFlag;
      if (frame.may_lose && frame.type == ExpertFrameType::kDispatch) flags |= kMayLoseFlag;
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
    at[26] = HasTensor(frame) ? CodeOf(frame.dtype) : 0;
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
    if (type < 1 || type > static_cast<uint16_t>(ExpertFrameType::kReady))
      return Malformed(Sentence("It has type ", type, ", expected 1 to 7."));
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
    ASSIGN_OR_RETURN(frame.dtype, DTypeOf(head[26]));
    TRY(ReadTensor(frame, head[27], payload, before));
    return frame;
  }

  static Status CheckFlags(ExpertFrameType type, uint8_t flags) {
    uint8_t known = 0;
    if (type == ExpertFrameType::kDispatch)
      known = kLz4Flag | kSameRowsFlag | kGatesFlag | kSumFlag | kMayLoseFlag;
    if (type == ExpertFrameType::kResult)
      known = (flags & kFailedFlag) != 0 ? kFailedFlag : kLz4Flag | kSumFlag;
    if (flags & ~known)
      return Malformed(Sentence("It is a ", NameOf(type), " with flags ", int{flags},
                                ", expected none but those of ", int{known}, "."));
    if ((flags & kLz4Flag) && (flags & kSameRowsFlag))
      return Malformed(
          "It repeats the rows before it and compresses them, expected one or neither.");
    return OkStatus();
  }

  // Of a frame without a tensor.
  static Status ReadBody(ExpertFrame& frame, uint8_t dtype, const Slice& payload) {
    if (frame.tokens != 0 || frame.hidden != 0 || dtype != 0)
      return Malformed(Sentence("It is a ", NameOf(frame.type), frame.failed ? " that failed" : "",
                                " with ", frame.tokens, " tokens of ", frame.hidden,
                                " columns and element type ", int{dtype}, ", expected 0 of each."));
    const bool of_expert =
        frame.type == ExpertFrameType::kResult || frame.type == ExpertFrameType::kCancel;
    if (!of_expert && (frame.layer != 0 || frame.expert != 0))
      return Malformed(Sentence("It is a ", NameOf(frame.type), " of layer ", frame.layer,
                                " and expert ", frame.expert, ", expected 0 and 0."));
    size_t least = 0, most = 0;
    if (frame.type == ExpertFrameType::kResult) least = 1, most = kMaxFailureBytes;
    if (frame.type == ExpertFrameType::kHeartbeat) least = most = kHeartbeatBytes;
    if (frame.type == ExpertFrameType::kWeightSync) least = most = sizeof(uint32_t);
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

  Status ReadTensor(ExpertFrame& frame, uint8_t flags, Slice payload, const ExpertFrame* before) {
    if (frame.tokens == 0 || frame.tokens > kMaxFrameTokens || frame.hidden == 0)
      return Malformed(Sentence("It has ", frame.tokens, " tokens of ", frame.hidden,
                                " columns, expected 1 to ", kMaxFrameTokens,
                                " tokens of at least 1 column."));
    const uint64_t row_bytes = RowBytes(frame);
    row_bytes_ += row_bytes;
    if (row_bytes_ > kMaxShardRowBytes)
      return Malformed(Sentence("With it the message holds rows of ", row_bytes_,
                                " bytes, expected at most ", kMaxShardRowBytes, "."));
    frame.may_sum = (flags & kSumFlag) != 0 && frame.type == ExpertFrameType::kDispatch;
    frame.may_lose = (flags & kMayLoseFlag) != 0;
    if ((flags & kSumFlag) && !frame.may_sum) TRY(TakeAdded(frame, payload));
    const uint64_t gate_bytes = (flags & kGatesFlag) ? kGateBytes * uint64_t{frame.tokens} : 0;
    if (payload.byte_count() < gate_bytes)
      return Malformed(Sentence("Its payload has ", payload.byte_count(), " bytes, expected ",
                                gate_bytes, " of gate weights alone."));
    const Slice rows = payload.Sub(0, payload.byte_count() - gate_bytes);
    if (gate_bytes != 0) frame.gates = payload.Sub(rows.byte_count(), gate_bytes);
    if (flags & kLz4Flag) {
      ASSIGN_OR_RETURN(frame.rows, Decompressed(rows.bytes(), row_bytes));
      return OkStatus();
    }
    frame.same_rows = (flags & kSameRowsFlag) != 0;
    const uint64_t expected = frame.same_rows ? 0 : row_bytes;
    if (rows.byte_count() != expected)
      return Malformed(Sentence("Its rows have ", rows.byte_count(), " bytes, expected ", expected,
                                frame.same_rows ? " as it repeats those before it." : "."));
    frame.rows = rows;
    if (!frame.same_rows) return OkStatus();
    if (before == nullptr || before->type != ExpertFrameType::kDispatch ||
        before->sequence != frame.sequence || before->layer != frame.layer ||
        before->tokens != frame.tokens || before->hidden != frame.hidden ||
        before->dtype != frame.dtype)
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

}  // namespace

std::vector<Slice> EncodeShardMessage(uint32_t peer, std::span<const ExpertFrame> frames,
                                      RowCompression compression) {
  CHECK(!frames.empty() && frames.size() <= kMaxShardFrames);
  Encoder encoder(peer, frames);
  for (const ExpertFrame& frame : frames) encoder.Append(frame, compression);
  return encoder.Finish();
}

bool IsShardMessage(ByteSpan message) {
  return !message.empty() && message[0] == kShardByte;
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
  StoreLe<uint32_t>(body.data() + 20, heartbeat.takes);
  frame.body = Slice(std::move(body));
  return frame;
}

ExpertFrame WeightSyncFrame(uint32_t epoch) {
  ExpertFrame frame = Bare(ExpertFrameType::kWeightSync);
  std::vector<uint8_t> body(sizeof(uint32_t));
  StoreLe<uint32_t>(body.data(), epoch);
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
  CHECK(!sentence.empty());
  ExpertFrame frame = Bare(ExpertFrameType::kResult);
  frame.sequence = dispatch.sequence;
  frame.layer = dispatch.layer;
  frame.expert = dispatch.expert;
  frame.failed = true;
  sentence.resize(std::min(sentence.size(), kMaxFailureBytes));
  frame.body = Slice::OfText(std::move(sentence));
  return frame;
}

Heartbeat ReadHeartbeat(const ExpertFrame& frame) {
  CHECK(frame.type == ExpertFrameType::kHeartbeat && frame.body.byte_count() == kHeartbeatBytes);
  const uint8_t* at = frame.body.bytes().data();
  return {LoadLe<uint32_t>(at), LoadLe<uint32_t>(at + 4), LoadLe<uint64_t>(at + 8),
          LoadLe<uint32_t>(at + 16), LoadLe<uint32_t>(at + 20)};
}

uint32_t ReadWeightSync(const ExpertFrame& frame) {
  CHECK(frame.type == ExpertFrameType::kWeightSync && frame.body.byte_count() == sizeof(uint32_t));
  return LoadLe<uint32_t>(frame.body.bytes().data());
}

}  // namespace weft::wire
