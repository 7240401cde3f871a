#include "apps/terminal_text.h"

#include <cstdint>

#include "text/utf8.h"

namespace weft::apps {
namespace {

bool IsHarmless(uint32_t c) {
  if (c == '\n' || c == '\t') return true;
  const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0);  // C0, DEL, C1
  const bool is_direction = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return !is_control && !is_direction;
}

}  // namespace

std::string TerminalText(std::string_view text) {
  std::string valid;
  utf8::LossyDecoder decoder;
  decoder.Push(text, valid);
  decoder.Flush(valid);
  std::string out;
  for (size_t at = 0; at < valid.size();) {
    const uint32_t c = utf8::Next(valid, at);
    if (IsHarmless(c)) utf8::Append(out, c);
  }
  return out;
}

}  // namespace weft::apps
