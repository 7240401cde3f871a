// User-perceived characters (extended grapheme clusters of Unicode's annex 29): a letter with its
// marks, a flag, a family of emoji.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

// Cuts a text from the left. REQUIRES: well-formed UTF-8 that outlives the object.
class Graphemes {
 public:
  explicit Graphemes(std::string_view text) : text_(text) {}

  // Empty at the end of the text.
  std::string_view Next();

 private:
  // Rule GB9c: an Indic consonant belongs to the one before it when marks between the two hold a
  // virama. How much of that has been seen.
  enum class Conjunct : uint8_t { kNone, kConsonant, kLinked };

  bool IsBreak(uint32_t left, uint32_t right);

  std::string_view text_;
  size_t at_ = 0;
  int32_t state_ = 0;  // utf8proc's
  Conjunct conjunct_ = Conjunct::kNone;
};

}  // namespace weft
