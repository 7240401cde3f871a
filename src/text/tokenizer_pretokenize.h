// Pre-tokenizers of a tokenizer.json: cut normalised text into pieces that the model encodes one by
// one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_fields.h"

namespace weft {

// Text and its pieces. Pieces are ranges of `text` in order; what lies between them is dropped.
struct PreTokens {
  struct Piece {
    uint32_t begin;
    uint32_t end;
  };
  std::string text;
  std::vector<Piece> pieces;
  bool starts_input = false;  // the text starts where the whole input starts
  // The model must take bytes through the byte-level alphabet; `text` itself is still plain.
  bool as_bytes = false;

  std::string_view View(Piece piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

// One way of cutting. Immutable; threads may share it.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  // Errors: kInvalidData when a regular expression gives up; kOutOfMemory when the text grows too
  // long.
  virtual Status Apply(PreTokens& tokens) const = 0;
};

class PreTokenizer {
 public:
  PreTokenizer() = default;  // the whole text is one piece

  // `value` is the field "pre_tokenizer"; null stands for none. Errors: kInvalidData, kUnsupported
  // naming the type.
  static Result<PreTokenizer> FromJson(const boost::json::value& value, std::string where);

  Status Apply(PreTokens& tokens) const;

 private:
  Status Add(const boost::json::value& value, const std::string& where, int depth);
  void Finish();

  std::vector<std::shared_ptr<const PreTokenizerStep>> steps_;
};

}  // namespace weft
