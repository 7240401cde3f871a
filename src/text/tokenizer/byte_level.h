// The byte-level alphabet of GPT-2: each byte stands as one printable character, so that a
// vocabulary of texts can hold any bytes. Printable Latin-1 bytes stand for themselves, the other
// 68 in order for U+0100 and up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// The character that stands for `byte`.
uint32_t ByteLevelChar(uint8_t byte);
// The byte that `code_point` stands for, or -1.
int ByteLevelByte(uint32_t code_point);

void AppendByteLevel(std::string_view bytes, std::string& out);
// False, with `out` unchanged, when a character of `text` stands for no byte. REQUIRES: well-formed
// UTF-8.
bool AppendFromByteLevel(std::string_view text, std::string& out);

}  // namespace weft
