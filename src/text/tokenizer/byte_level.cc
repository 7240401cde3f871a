#include "text/tokenizer/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace weft {
namespace {

constexpr uint32_t kAlphabetEnd = 0x100 + 68;

struct Alphabet {
  std::array<uint16_t, 256> char_of{};
  std::array<int16_t, kAlphabetEnd> byte_of{};

  constexpr Alphabet() {
    for (auto& byte : byte_of) byte = -1;
    uint16_t next = 0x100;
    for (uint16_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                             (byte >= 0xAE && byte <= 0xFF);
      char_of[byte] = printable ? byte : next++;
      byte_of[char_of[byte]] = static_cast<int16_t>(byte);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

uint32_t ByteLevelChar(uint8_t byte) {
  return kAlphabet.char_of[byte];
}

int ByteLevelByte(uint32_t code_point) {
  return code_point < kAlphabetEnd ? kAlphabet.byte_of[code_point] : -1;
}

void AppendByteLevel(std::string_view bytes, std::string& out) {
  for (const char c : bytes) utf8::Append(out, ByteLevelChar(static_cast<uint8_t>(c)));
}

bool AppendFromByteLevel(std::string_view text, std::string& out) {
  const size_t before = out.size();
  for (size_t at = 0; at < text.size();) {
    const int byte = ByteLevelByte(utf8::Next(text, at));
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
  }
  return true;
}

}  // namespace weft
