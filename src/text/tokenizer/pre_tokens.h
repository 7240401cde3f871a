// Text that is cut into pieces, and one way of cutting: what pre-tokenizers pass to one another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

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

}  // namespace weft
