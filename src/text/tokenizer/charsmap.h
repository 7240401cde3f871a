// SentencePiece's precompiled character map says which short texts are replaced by which. It is a
// double array of bytes and a block of replacements, each with a zero byte at its end. All integers
// are little-endian:
//
//   u32 byte count of the array | u32 units | replacements
//
//   unit of a node       bits 0-7 its byte, 8 whether a text ends at it, 9 whether the offset
//                        counts 256 units, 10-30 the offset of its children, by exclusive or
//   unit of an end       bit 31 set, 0-30 where the replacement begins
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft {

class Charsmap {
 public:
  // Errors: kInvalidData for a map that is cut off, whose array leads outside of itself, or whose
  // replacements are not UTF-8.
  static Result<Charsmap> FromBytes(ByteSpan bytes);

  struct Match {
    size_t byte_count;  // of the text that is replaced
    std::string_view replacement;
  };
  // The shortest, or longest, text of the map that `text` begins with.
  std::optional<Match> Shortest(std::string_view text) const { return Find(text, true); }
  std::optional<Match> Longest(std::string_view text) const { return Find(text, false); }

 private:
  std::optional<Match> Find(std::string_view text, bool shortest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

// Replaces parts of a text as the Hugging Face tokenizers library does it. A user-perceived
// character of less than six bytes becomes what the map has for the shortest text that it begins
// with. Any other one is replaced code point by code point.
std::string ReplaceByCharacters(const Charsmap& map, std::string_view text);
// As SentencePiece and llama.cpp do it: at every place the longest text of the map.
std::string ReplaceLongest(const Charsmap& map, std::string_view text);

// RFC 4648 with padding; nullopt for anything else.
std::optional<std::vector<uint8_t>> FromBase64(std::string_view text);
std::string ToBase64(ByteSpan bytes);

}  // namespace weft
