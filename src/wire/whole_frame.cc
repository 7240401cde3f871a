#include "wire/whole_frame.h"

#include <cmath>
#include <string>

#include "base/check.h"
#include "wire/version.h"

namespace weft::wire {
namespace {

enum Type : uint8_t { kGenerate = 1, kTokens = 2, kStop = 3, kRunHere = 4, kWholeModel = 5 };
constexpr size_t kHeadBytes = 16, kGenerateBytes = 80, kTokensBytes = 24, kValueBytes = 20;

Error Malformed(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

class Writer {
 public:
  Writer(Type type, uint32_t sequence, uint32_t binding) {
    Put(kWholeFrameMagic);
    Put(static_cast<uint16_t>(kProtocolVersion));
    Put(static_cast<uint8_t>(type));
    Put(uint8_t{0});
    Put(sequence);
    Put(binding);
  }
  template <typename T>
  void Put(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    StoreLe(&bytes_[bytes_.size() - sizeof(T)], value);
  }
  void PutText(const std::string& text) {
    CHECK(text.size() <= kMaxWholeText);
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

// REQUIRES: every read lies within the message.
class Reader {
 public:
  explicit Reader(const uint8_t* at) : at_(at) {}
  template <typename T>
  T Get() {
    const T value = LoadLe<T>(at_);
    at_ += sizeof(T);
    return value;
  }

 private:
  const uint8_t* at_;
};

std::vector<uint8_t> Encode(const Generate& g) {
  Writer out(kGenerate, g.sequence, g.binding);
  for (const uint32_t value : {g.session, g.generation, g.position}) out.Put(value);
  out.Put(g.token_id);
  out.Put(g.count);
  out.Put(g.interval);
  const sampling::Parameters& p = g.sampling;
  out.Put(p.temperature);
  out.Put(static_cast<uint32_t>(p.top_k));
  for (const float value :
       {p.top_p, p.min_p, p.repetition_penalty, p.presence_penalty, p.frequency_penalty})
    out.Put(value);
  out.Put(p.seed.value_or(0));
  out.Put(static_cast<uint16_t>(g.stop_ids.size()));
  out.Put(static_cast<uint16_t>(p.logit_bias.size()));
  out.Put(static_cast<uint32_t>(g.seen.size()));
  for (const int32_t id : g.stop_ids) out.Put(id);
  for (const auto& [id, bias] : p.logit_bias) {
    out.Put(id);
    out.Put(bias);
  }
  for (const auto& [id, count] : g.seen) {
    out.Put(id);
    out.Put(count);
  }
  return out.Take();
}

std::vector<uint8_t> Encode(const Tokens& tokens) {
  Writer out(kTokens, tokens.sequence, tokens.binding);
  out.Put(static_cast<uint16_t>(tokens.token_ids.size()));
  out.Put(static_cast<uint8_t>(tokens.last ? 1 : 0));
  out.Put(uint8_t{0});
  out.Put(tokens.compute_us);
  for (const int32_t id : tokens.token_ids) out.Put(id);
  return out.Take();
}

std::vector<uint8_t> Encode(const StopGenerating& stop) {
  Writer out(kStop, stop.sequence, stop.binding);
  out.Put(uint32_t{0});
  return out.Take();
}
std::vector<uint8_t> EncodeValue(Type type, uint32_t value, const std::string& text) {
  Writer out(type, 0, 0);
  out.Put(value);
  out.PutText(text);
  return out.Take();
}
std::vector<uint8_t> Encode(const RunHere& run) {
  return EncodeValue(kRunHere, run.wanted ? 1 : 0, run.api_key);
}
std::vector<uint8_t> Encode(const WholeModel& whole) {
  return EncodeValue(kWholeModel, static_cast<uint32_t>(whole.state), whole.message);
}

Status CheckLength(ByteSpan message, uint64_t expected) {
  if (message.size() == expected) return OkStatus();
  return Malformed("The whole-model frame has " + std::to_string(message.size()) +
                   " bytes, expected " + std::to_string(expected) + ".");
}

Result<WholeFrame> DecodeGenerate(ByteSpan message, uint32_t sequence, uint32_t binding) {
  if (message.size() < kGenerateBytes) return CheckLength(message, kGenerateBytes).error();
  Reader in(message.data() + kHeadBytes);
  Generate g;
  g.sequence = sequence;
  g.binding = binding;
  g.session = in.Get<uint32_t>();
  g.generation = in.Get<uint32_t>();
  g.position = in.Get<uint32_t>();
  g.token_id = in.Get<int32_t>();
  g.count = in.Get<uint16_t>();
  g.interval = in.Get<uint16_t>();
  sampling::Parameters& p = g.sampling;
  p.temperature = in.Get<float>();
  p.top_k = static_cast<int32_t>(std::min<uint32_t>(in.Get<uint32_t>(), INT32_MAX));
  for (float* value :
       {&p.top_p, &p.min_p, &p.repetition_penalty, &p.presence_penalty, &p.frequency_penalty})
    *value = in.Get<float>();
  p.seed = in.Get<uint64_t>();
  const auto stops = in.Get<uint16_t>(), biases = in.Get<uint16_t>();
  const auto seen = in.Get<uint32_t>();
  TRY(CheckLength(message, kGenerateBytes + 4ull * stops + 8ull * biases + 8ull * seen));
  if (g.count == 0 || g.interval == 0 || g.token_id < 0)
    return Malformed("Generate asks for " + std::to_string(g.count) + " tokens by " +
                     std::to_string(g.interval) + " after token " + std::to_string(g.token_id) +
                     ", expected at least 1 of each after a token of the vocabulary.");
  for (uint32_t i = 0; i < stops; ++i) g.stop_ids.push_back(in.Get<int32_t>());
  for (uint32_t i = 0; i < biases; ++i) {
    const auto id = in.Get<int32_t>();
    p.logit_bias.push_back({id, in.Get<float>()});
  }
  for (uint32_t i = 0; i < seen; ++i) {
    const auto id = in.Get<int32_t>();
    g.seen.push_back({id, in.Get<uint32_t>()});
  }
  return WholeFrame(std::move(g));
}

Result<WholeFrame> DecodeTokens(ByteSpan message, uint32_t sequence, uint32_t binding) {
  if (message.size() < kTokensBytes) return CheckLength(message, kTokensBytes).error();
  Reader in(message.data() + kHeadBytes);
  Tokens tokens;
  tokens.sequence = sequence;
  tokens.binding = binding;
  const auto count = in.Get<uint16_t>();
  const auto last = in.Get<uint8_t>(), zero = in.Get<uint8_t>();
  tokens.compute_us = in.Get<uint32_t>();
  TRY(CheckLength(message, kTokensBytes + 4ull * count));
  if (last > 1 || zero != 0)
    return Malformed("Tokens has the bytes " + std::to_string(last) + " and " +
                     std::to_string(zero) + " after its count, expected 0 or 1 and 0.");
  tokens.last = last == 1;
  for (uint32_t i = 0; i < count; ++i) tokens.token_ids.push_back(in.Get<int32_t>());
  return WholeFrame(std::move(tokens));
}

}  // namespace

bool IsWholeFrame(ByteSpan message) {
  return message.size() >= kHeadBytes && LoadLe<uint32_t>(message.data()) == kWholeFrameMagic;
}

std::vector<uint8_t> EncodeWholeFrame(const WholeFrame& frame) {
  return std::visit([](const auto& each) { return Encode(each); }, frame);
}

Result<WholeFrame> DecodeWholeFrame(ByteSpan message) {
  if (!IsWholeFrame(message))
    return Malformed("The message is no whole-model frame: it has " +
                     std::to_string(message.size()) +
                     " bytes, expected at least 16 that begin with \"WGEN\".");
  Reader in(message.data() + sizeof(uint32_t));
  const auto version = in.Get<uint16_t>();
  const auto type = in.Get<uint8_t>(), zero = in.Get<uint8_t>();
  const auto sequence = in.Get<uint32_t>(), binding = in.Get<uint32_t>();
  if (version != kProtocolVersion)
    return Malformed("The whole-model frame has protocol version " + std::to_string(version) +
                     ", expected " + std::to_string(kProtocolVersion) + ".");
  if (type < kGenerate || type > kWholeModel || zero != 0)
    return Malformed("The whole-model frame has type " + std::to_string(type) + " and flags " +
                     std::to_string(zero) + ", expected 1 to 5 and 0.");
  if (type == kGenerate) return DecodeGenerate(message, sequence, binding);
  if (type == kTokens) return DecodeTokens(message, sequence, binding);
  if (type == kStop || message.size() < kValueBytes) TRY(CheckLength(message, kValueBytes));
  if (message.size() > kValueBytes + kMaxWholeText)
    return Malformed("The whole-model frame has a text of " +
                     std::to_string(message.size() - kValueBytes) + " bytes, expected at most " +
                     std::to_string(kMaxWholeText) + ".");
  const auto value = in.Get<uint32_t>();
  const uint32_t most = type == kStop ? 0 : type == kRunHere ? 1 : 3;
  if (value > most)
    return Malformed("The whole-model frame has the value " + std::to_string(value) +
                     ", expected at most " + std::to_string(most) + ".");
  if (type == kStop) return WholeFrame(StopGenerating{sequence, binding});
  std::string text(AsText(message.subspan(kValueBytes)));
  if (type == kRunHere) return WholeFrame(RunHere{value == 1, std::move(text)});
  return WholeFrame(WholeModel{static_cast<WholeModel::State>(value), std::move(text)});
}

}  // namespace weft::wire
