#include "text/tokenizer/decode.h"

#include <algorithm>
#include <optional>

#include "text/tokenizer/byte_level.h"
#include "text/utf8.h"

namespace weft {
namespace {

class Collect : public DecodeStage {
 public:
  explicit Collect(std::string* out) : out_(out) {}
  void Put(const DecodeUnit& unit) override { *out_ += unit.text; }
  void Flush() override {}

 private:
  std::string* out_;
};

class JoinSpaces : public DecodeStage {
 public:
  explicit JoinSpaces(bool continues) : first_(!continues) {}
  void Put(const DecodeUnit& unit) override {
    if (!first_) next->Put({.text = " "});
    first_ = false;
    next->Put(unit);
  }
  void Flush() override { next->Flush(); }

 private:
  bool first_;
};

// Common to the two stages that make text of bytes.
class ByteStage : public DecodeStage {
 public:
  void Flush() override {
    FlushBytes();
    next->Flush();
  }

 protected:
  void PutBytes(std::string_view bytes) {
    text_.clear();
    lossy_.Push(bytes, text_);
    if (!text_.empty()) next->Put({.text = text_});
  }
  void FlushBytes() {
    text_.clear();
    lossy_.Flush(text_);
    if (!text_.empty()) next->Put({.text = text_});
  }

 private:
  utf8::LossyDecoder lossy_;
  std::string text_;
};

class ByteLevelStage : public ByteStage {
 public:
  void Put(const DecodeUnit& unit) override {
    if (unit.is_added) {
      FlushBytes();
      next->Put(unit);
      return;
    }
    bytes_.clear();
    // A text outside the alphabet stands for itself.
    if (!AppendFromByteLevel(unit.text, bytes_)) bytes_ = unit.text;
    PutBytes(bytes_);
  }

 private:
  std::string bytes_;
};

// "<0xE2>" -> 0xE2.
std::optional<char> FallbackByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto byte = FromHex(token.substr(3, 2));
  if (!byte.has_value()) return std::nullopt;
  return static_cast<char>((*byte)[0]);
}

class ByteFallbackStage : public ByteStage {
 public:
  void Put(const DecodeUnit& unit) override {
    if (const auto byte = FallbackByte(unit.text)) {
      PutBytes(std::string_view(&*byte, 1));
      return;
    }
    FlushBytes();
    next->Put(unit);
  }
};

class FuseStage : public DecodeStage {
 public:
  explicit FuseStage(bool continues) : first_(!continues) {}
  void Put(const DecodeUnit& unit) override {
    next->Put({.text = unit.text, .begins = first_, .ends = false});
    first_ = false;
  }
  void Flush() override {
    next->Put({.text = {}, .begins = first_, .ends = true});
    next->Flush();
  }

 private:
  bool first_;
};

// Drops up to `start` copies of a character at the front of each unit and up to `stop` at its end.
class StripStage : public DecodeStage {
 public:
  StripStage(std::string content, uint32_t start, uint32_t stop, bool continues)
      : content_(std::move(content)), start_(start), stop_(stop), skip_unit_(continues) {}

  void Put(const DecodeUnit& unit) override {
    std::string_view text = unit.text;
    if (unit.begins && !skip_unit_) start_left_ = start_;
    while (start_left_ > 0 && !text.empty()) {
      if (!text.starts_with(content_)) {
        start_left_ = 0;
        break;
      }
      text.remove_prefix(content_.size());
      --start_left_;
    }
    std::string kept(text);
    if (stop_ > 0) HoldBack(kept, unit.ends);
    if (unit.ends) start_left_ = 0;
    next->Put({.text = kept, .begins = unit.begins, .ends = unit.ends, .is_added = unit.is_added});
  }
  void Flush() override { next->Flush(); }

 private:
  // Keeps back the copies at the end that may turn out to be the unit's last.
  void HoldBack(std::string& text, bool ends) {
    for (; held_ > 0; --held_) text.insert(0, content_);
    std::string_view rest = text;
    while (held_ < stop_ && rest.ends_with(content_)) {
      rest.remove_suffix(content_.size());
      ++held_;
    }
    text.resize(rest.size());
    if (ends) held_ = 0;
  }

  std::string content_;
  uint32_t start_;
  uint32_t stop_;
  bool skip_unit_;  // the text continues another one: its front is not a front
  uint32_t start_left_ = 0;
  uint32_t held_ = 0;
};

class ReplaceStage : public DecodeStage {
 public:
  ReplaceStage(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void Put(const DecodeUnit& unit) override {
    std::string text;
    size_t done = 0;
    for (size_t at = unit.text.find(from_); at != std::string_view::npos;
         at = unit.text.find(from_, done)) {
      text += unit.text.substr(done, at - done);
      text += to_;
      done = at + from_.size();
    }
    text += unit.text.substr(done);
    next->Put({.text = text, .begins = unit.begins, .ends = unit.ends, .is_added = unit.is_added});
  }
  void Flush() override { next->Flush(); }

 private:
  std::string from_;
  std::string to_;
};

class MetaspaceStage : public DecodeStage {
 public:
  MetaspaceStage(std::string replacement, bool drop_in_first)
      : replacement_(std::move(replacement)), drop_(drop_in_first) {}
  void Put(const DecodeUnit& unit) override {
    ReplaceStage replace(replacement_, drop_ ? "" : " ");
    replace.next = next;
    replace.Put(unit);
    drop_ = false;
  }
  void Flush() override { next->Flush(); }

 private:
  std::string replacement_;
  bool drop_;  // the first token loses its replacement characters
};

}  // namespace

DecoderChain::DecoderChain() : steps_{{.kind = Kind::kJoinSpaces}} {}

Result<DecoderChain> DecoderChain::FromJson(const boost::json::value& value, std::string where) {
  DecoderChain chain;
  if (value.is_null()) return chain;
  chain.steps_.clear();
  TRY(ForEachStep(value, where, "decoders", [&](const JsonFields& step, const std::string& type) {
    return chain.Add(step, type);
  }));
  return chain;
}

Status DecoderChain::Add(const JsonFields& fields, const std::string& type) {
  if (type == "Fuse") {
    steps_.push_back({.kind = Kind::kFuse});
    return OkStatus();
  }
  if (type == "Strip") {
    ASSIGN_OR_RETURN(std::string content, fields.String("content", " "));
    if (content.empty()) return fields.Wrong("content", "one character");
    ASSIGN_OR_RETURN(const int64_t start, fields.Integer("start", 0, 0, 1024));
    ASSIGN_OR_RETURN(const int64_t stop, fields.Integer("stop", 0, 0, 1024));
    steps_.push_back({.kind = Kind::kStrip,
                      .content = std::move(content),
                      .start = static_cast<uint32_t>(start),
                      .stop = static_cast<uint32_t>(stop)});
    return OkStatus();
  }
  const bool fused = std::any_of(steps_.begin(), steps_.end(),
                                 [](const Step& step) { return step.kind == Kind::kFuse; });
  if (type == "Replace") return AddReplace(fields, fused);
  if (fused) {
    return Error(ErrorCode::kUnsupported, fields.where() + " puts the decoder \"" + type +
                                              "\" after Fuse; weft supports only Strip there.");
  }
  if (type == "ByteLevel") {
    steps_.push_back({.kind = Kind::kByteLevel});
  } else if (type == "ByteFallback") {
    steps_.push_back({.kind = Kind::kByteFallback});
  } else if (type == "Metaspace") {
    ASSIGN_OR_RETURN(std::string text, fields.String("replacement", "\u2581"));
    if (text.empty()) return fields.Wrong("replacement", "one character");
    ASSIGN_OR_RETURN(const bool prefix, fields.Bool("add_prefix_space", true));
    ASSIGN_OR_RETURN(const std::string scheme,
                     fields.String("prepend_scheme", prefix ? "always" : "never"));
    steps_.push_back(
        {.kind = Kind::kMetaspace, .text = std::move(text), .start = scheme != "never" ? 1u : 0u});
  } else {
    return UnknownType(fields, type);
  }
  return OkStatus();
}

// Tokens come one by one, so that an expression must be a text. The one that takes the space at the
// front of all of it away, as files of llm-jp write it, is Strip.
Status DecoderChain::AddReplace(const JsonFields& fields, bool fused) {
  ASSIGN_OR_RETURN(const JsonFields pattern, fields.Object("pattern"));
  ASSIGN_OR_RETURN(std::string content, fields.String("content"));
  const bool is_regex = pattern.Find("Regex") != nullptr;
  ASSIGN_OR_RETURN(std::string text, pattern.String(is_regex ? "Regex" : "String"));
  if (text.empty()) return pattern.Wrong("String", "a text that is not empty");
  if (fused && is_regex && text == "(?<!\\n)^ " && content.empty()) {
    steps_.push_back({.kind = Kind::kStrip, .content = " ", .start = 1});
    return OkStatus();
  }
  if (fused || (is_regex && text.find_first_of("\\^$.|?*+()[]{}") != std::string::npos)) {
    return Error(ErrorCode::kUnsupported,
                 fields.where() + " replaces \"" + text + "\"" + (fused ? " after Fuse" : "") +
                     "; weft replaces plain text in decoders, and that before Fuse.");
  }
  steps_.push_back(
      {.kind = Kind::kReplace, .text = std::move(text), .content = std::move(content)});
  return OkStatus();
}

std::string DecoderChain::TokenBytes(std::string_view token) const {
  std::string bytes(token);
  for (const Step& step : steps_) {
    if (step.kind == Kind::kByteLevel) {
      std::string plain;
      if (AppendFromByteLevel(bytes, plain)) bytes = std::move(plain);
    } else if (step.kind == Kind::kByteFallback) {
      if (const auto byte = FallbackByte(bytes)) return std::string(1, *byte);
    } else if (step.kind == Kind::kReplace || step.kind == Kind::kMetaspace) {
      std::string replaced;
      Collect collect(&replaced);
      ReplaceStage replace(step.text, step.kind == Kind::kReplace ? step.content : " ");
      replace.next = &collect;
      replace.Put({.text = bytes});
      bytes = std::move(replaced);
    }
  }
  return bytes;
}

std::vector<std::unique_ptr<DecodeStage>> DecoderChain::MakeStages(std::string* out,
                                                                   bool continues) const {
  std::vector<std::unique_ptr<DecodeStage>> stages;
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kJoinSpaces:
        stages.push_back(std::make_unique<JoinSpaces>(continues));
        break;
      case Kind::kByteLevel:
        stages.push_back(std::make_unique<ByteLevelStage>());
        break;
      case Kind::kByteFallback:
        stages.push_back(std::make_unique<ByteFallbackStage>());
        break;
      case Kind::kFuse:
        stages.push_back(std::make_unique<FuseStage>(continues));
        break;
      case Kind::kStrip:
        stages.push_back(
            std::make_unique<StripStage>(step.content, step.start, step.stop, continues));
        break;
      case Kind::kReplace:
        stages.push_back(std::make_unique<ReplaceStage>(step.text, step.content));
        break;
      case Kind::kMetaspace:
        stages.push_back(
            std::make_unique<MetaspaceStage>(step.text, step.start != 0 && !continues));
        break;
    }
  }
  stages.push_back(std::make_unique<Collect>(out));
  for (size_t i = 0; i + 1 < stages.size(); ++i) stages[i]->next = stages[i + 1].get();
  return stages;
}

}  // namespace weft
