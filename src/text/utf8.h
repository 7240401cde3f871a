// UTF-8 for the text module: validation, code points, character classes, and a decoder that turns
// any bytes into valid text while they stream in. Classes follow Unicode properties as the Hugging
// Face tokenizers use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::utf8 {

inline constexpr uint32_t kReplacement = 0xFFFD;

// Offset of the first byte that is not part of a well-formed character; npos when all of `text` is
// well-formed.
size_t FindInvalid(std::string_view text);

// Length in bytes of the character whose first byte is `lead`. REQUIRES: `lead` starts a
// well-formed character.
inline size_t LengthOf(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

// The code point at text[at]; advances `at` past it. REQUIRES: well-formed text, `at` at a
// character's start.
uint32_t Next(std::string_view text, size_t& at);

// Start of the character that ends before `at`. REQUIRES: well-formed text, 0 < at <= size, at a
// boundary.
size_t Previous(std::string_view text, size_t at);

void Append(std::string& to, uint32_t code_point);

size_t CountCodePoints(std::string_view text);

bool IsWhiteSpace(uint32_t code_point);   // property White_Space
bool IsNumeric(uint32_t code_point);      // categories Nd, Nl, No
bool IsPunctuation(uint32_t code_point);  // ASCII punctuation and categories P*
bool IsMark(uint32_t code_point);         // categories Mn, Mc, Me
bool IsWordChar(uint32_t code_point);  // letters, marks, decimal digits, connectors: a regex's \w

std::string Lower(std::string_view text);  // full mapping of single characters, no context
std::string Upper(std::string_view text);

// Turns bytes into well-formed text as they come. Complete characters come at once, an incomplete
// one only with its last byte. Each maximal ill-formed part becomes U+FFFD (as WHATWG decoders do).
class LossyDecoder {
 public:
  void Push(std::string_view bytes, std::string& out);
  // What was incomplete becomes one U+FFFD.
  void Flush(std::string& out);

 private:
  void PushByte(uint8_t byte, std::string& out);

  char pending_[4] = {};
  uint8_t pending_count_ = 0;
  uint8_t wanted_count_ = 0;
  uint8_t lower_ = 0x80;  // limits for the next continuation byte
  uint8_t upper_ = 0xBF;
};

}  // namespace weft::utf8
