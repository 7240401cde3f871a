#include "grammar/utf8.h"

namespace weft::grammar {

void AppendUtf8(std::string& to, uint32_t code_point) {
  const auto add = [&to](uint32_t byte) { to.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return add(code_point);
  if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      add(0xE0 | code_point >> 12);
    } else {
      add(0xF0 | code_point >> 18);
      add(0x80 | (code_point >> 12 & 0x3F));
    }
    add(0x80 | (code_point >> 6 & 0x3F));
  }
  add(0x80 | (code_point & 0x3F));
}

std::optional<uint32_t> NextCodePoint(std::string_view text, size_t& at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < length) return std::nullopt;
  uint32_t code_point = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[at + i]);
    if ((byte & 0xC0) != 0x80) return std::nullopt;
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  // Longer than need be, a surrogate, or beyond the last one.
  if ((length == 3 && (code_point < 0x800 || (code_point >= 0xD800 && code_point <= 0xDFFF))) ||
      (length == 4 && (code_point < 0x10000 || code_point > 0x10FFFF)))
    return std::nullopt;
  at += length;
  return code_point;
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();)
    if (!NextCodePoint(text, at)) return false;
  return true;
}

}  // namespace weft::grammar
