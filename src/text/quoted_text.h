// A text with the parts of it that are quoted: what people and tools wrote, in which the texts of
// control tokens are only text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

struct QuotedText {
  std::string text;
  std::vector<TextRange> quoted;  // in order, apart from each other
};

}  // namespace weft
