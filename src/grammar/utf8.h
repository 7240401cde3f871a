// Code points of a text and back, for this module, which includes base alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::grammar {

// REQUIRES: a code point that is no surrogate.
void AppendUtf8(std::string& to, uint32_t code_point);

// The character at text[at], which `at` is moved past; nullopt where the bytes are none. REQUIRES:
// at < text.size().
std::optional<uint32_t> NextCodePoint(std::string_view text, size_t& at);

// Whether all of it is well-formed.
bool IsUtf8(std::string_view text);

}  // namespace weft::grammar
