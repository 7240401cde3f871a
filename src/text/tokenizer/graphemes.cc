#include "text/tokenizer/graphemes.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace weft {
namespace {

constexpr uint32_t kFirstIndic = 0x900;

// Property InCB=Consonant of Unicode 15.1 to 16.
bool IsConjunctConsonant(uint32_t c) {
  static constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x0915, 0x0939}, {0x0958, 0x095F}, {0x0978, 0x097F}, {0x0995, 0x09A8}, {0x09AA, 0x09B0},
      {0x09B2, 0x09B2}, {0x09B6, 0x09B9}, {0x09DC, 0x09DD}, {0x09DF, 0x09DF}, {0x09F0, 0x09F1},
      {0x0A95, 0x0AA8}, {0x0AAA, 0x0AB0}, {0x0AB2, 0x0AB3}, {0x0AB5, 0x0AB9}, {0x0AF9, 0x0AF9},
      {0x0B15, 0x0B28}, {0x0B2A, 0x0B30}, {0x0B32, 0x0B33}, {0x0B35, 0x0B39}, {0x0B5C, 0x0B5D},
      {0x0B5F, 0x0B5F}, {0x0B71, 0x0B71}, {0x0C15, 0x0C28}, {0x0C2A, 0x0C39}, {0x0C58, 0x0C5A},
      {0x0D15, 0x0D3A}};
  if (c < kFirstIndic || c > 0x0D3A) return false;
  return std::ranges::any_of(
      kRanges, [c](const auto& range) { return c >= range.first && c <= range.second; });
}

// Property InCB=Linker: the viramas of those scripts.
bool IsConjunctLinker(uint32_t c) {
  return c == 0x094D || c == 0x09CD || c == 0x0ACD || c == 0x0B4D || c == 0x0C4D || c == 0x0D4D;
}

bool IsExtend(uint32_t c) {
  const int boundary = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->boundclass;
  return (boundary == UTF8PROC_BOUNDCLASS_EXTEND && c != 0x200C) ||
         boundary == UTF8PROC_BOUNDCLASS_ZWJ;
}

}  // namespace

bool Graphemes::IsBreak(uint32_t left, uint32_t right) {
  const bool is_break = utf8proc_grapheme_break_stateful(
      static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right), &state_);
  if (IsConjunctConsonant(right)) {
    return std::exchange(conjunct_, Conjunct::kConsonant) != Conjunct::kLinked && is_break;
  }
  if (conjunct_ == Conjunct::kNone) return is_break;
  if (IsConjunctLinker(right)) {
    conjunct_ = Conjunct::kLinked;
  } else if (!IsExtend(right)) {
    conjunct_ = Conjunct::kNone;
  }
  return is_break;
}

std::string_view Graphemes::Next() {
  if (at_ >= text_.size()) return {};
  const size_t begin = at_;
  uint32_t left = utf8::Next(text_, at_);
  state_ = 0;
  conjunct_ = IsConjunctConsonant(left) ? Conjunct::kConsonant : Conjunct::kNone;
  while (at_ < text_.size()) {
    // Two ASCII characters belong together only as the end of a line.
    const auto next = static_cast<uint8_t>(text_[at_]);
    if (left < 0x80 && next < 0x80 && next != '\n') break;
    size_t after = at_;
    const uint32_t right = utf8::Next(text_, after);
    if (IsBreak(left, right)) break;
    left = right;
    at_ = after;
  }
  return text_.substr(begin, at_ - begin);
}

}  // namespace weft
