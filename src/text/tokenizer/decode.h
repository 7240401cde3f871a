// Decoders of a tokenizer.json: token texts back to text. Every decoder is a chain of streaming
// stages, so that decoding a whole list and decoding one token at a time are the same code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/json_fields.h"

namespace weft {

// One stage of a chain in one detokenizer. A unit is what the Hugging Face library passes from
// decoder to decoder as one string: a token, or all tokens after Fuse. Units may come in parts.
struct DecodeUnit {
  std::string_view text;
  bool begins = true;     // first part of its unit
  bool ends = true;       // last part
  bool is_added = false;  // the text of an added token: plain text, not the model's alphabet
};

class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void Put(const DecodeUnit& unit) = 0;
  // No more units come. Stages pass it on.
  virtual void Flush() = 0;

  DecodeStage* next = nullptr;
};

// The description of a chain. Immutable; threads may share it.
class DecoderChain {
 public:
  DecoderChain();  // no decoder: token texts joined by spaces, as the Hugging Face library does

  // `value` is the field "decoder"; null stands for none. Errors: kInvalidData, kUnsupported naming
  // the type.
  static Result<DecoderChain> FromJson(const boost::json::value& value, std::string where);

  // Stages in order, linked; the last one appends to `out`, which must outlive them. With
  // `continues`, text went before: nothing is stripped at the start.
  std::vector<std::unique_ptr<DecodeStage>> MakeStages(std::string* out, bool continues) const;

  // What one token of the model's alphabet stands for, which may be half a character.
  std::string TokenBytes(std::string_view token) const;

 private:
  enum class Kind { kJoinSpaces, kByteLevel, kByteFallback, kFuse, kStrip, kReplace, kMetaspace };
  struct Step {
    Kind kind;
    std::string text;
    std::string content;
    uint32_t start = 0;
    uint32_t stop = 0;
  };
  Status Add(const JsonFields& fields, const std::string& type);
  Status AddReplace(const JsonFields& fields, bool fused);

  std::vector<Step> steps_;
};

}  // namespace weft
