#include "text/utf8.h"

#include <utf8proc.h>

#include <cstring>

#include "base/check.h"

namespace weft::utf8 {
namespace {

// What may follow a lead byte (Unicode 15, table 3-7): count of continuation bytes and limits of
// the first of them.
struct LeadRule {
  uint8_t continuation_count;
  uint8_t lower;
  uint8_t upper;
};

// As nullopt would be: continuation_count 0 means that the byte starts no multi-byte character.
LeadRule RuleOf(uint8_t lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {1, 0x80, 0xBF};
  if (lead == 0xE0) return {2, 0xA0, 0xBF};
  if (lead == 0xED) return {2, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {2, 0x80, 0xBF};
  if (lead == 0xF0) return {3, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {3, 0x80, 0xBF};
  if (lead == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

utf8proc_category_t CategoryOf(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool AllAscii(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return (word & 0x8080808080808080ull) == 0;
}

}  // namespace

size_t FindInvalid(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size() && AllAscii(text.data() + at)) {
      at += 8;
      continue;
    }
    const auto lead = static_cast<uint8_t>(text[at]);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const LeadRule rule = RuleOf(lead);
    if (rule.continuation_count == 0 || text.size() - at <= rule.continuation_count) return at;
    for (size_t i = 1; i <= rule.continuation_count; ++i) {
      const auto byte = static_cast<uint8_t>(text[at + i]);
      const uint8_t lower = i == 1 ? rule.lower : 0x80;
      const uint8_t upper = i == 1 ? rule.upper : 0xBF;
      if (byte < lower || byte > upper) return at;
    }
    at += 1u + rule.continuation_count;
  }
  return std::string_view::npos;
}

uint32_t Next(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(at);
  const size_t length = LengthOf(text[at]);
  CHECK(length <= text.size() - at, "Next() needs well-formed UTF-8");
  uint32_t code_point = lead;
  if (length == 2) {
    code_point = (lead & 0x1F) << 6 | (byte(at + 1) & 0x3F);
  } else if (length == 3) {
    code_point = (lead & 0x0F) << 12 | (byte(at + 1) & 0x3F) << 6 | (byte(at + 2) & 0x3F);
  } else if (length == 4) {
    code_point = (lead & 0x07) << 18 | (byte(at + 1) & 0x3F) << 12 | (byte(at + 2) & 0x3F) << 6 |
                 (byte(at + 3) & 0x3F);
  }
  at += length;
  return code_point;
}

size_t Previous(std::string_view text, size_t at) {
  --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

void Append(std::string& to, uint32_t code_point) {
  const auto push = [&](uint32_t byte) { to.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | code_point >> 18);
    push(0x80 | (code_point >> 12 & 0x3F));
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return count;
}

bool IsWhiteSpace(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsNumeric(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool IsPunctuation(uint32_t c) {
  if (c < 0x80) {
    return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
           (c >= 0x7B && c <= 0x7E);
  }
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsMark(uint32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool IsWordChar(uint32_t c) {
  if (c < 0x80) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  const utf8proc_category_t category = CategoryOf(c);
  // Letters in circles and boxes are alphabetic, and joiners belong to the letters that they join.
  const bool is_other_word = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189) ||
                             c == 0x200C || c == 0x200D;
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ND) ||
         category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC || is_other_word;
}

std::string Lower(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = Next(text, at);
    if (c == 0x130) {  // the one character whose lower case is two
      lower += "i\xCC\x87";
    } else {
      Append(lower, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return lower;
}

std::string Upper(std::string_view text) {
  std::string upper;
  upper.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = Next(text, at);
    if (c == 0xDF) {
      upper += "SS";
    } else {
      Append(upper, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return upper;
}

void LossyDecoder::Push(std::string_view bytes, std::string& out) {
  for (const char c : bytes) PushByte(static_cast<uint8_t>(c), out);
}

void LossyDecoder::PushByte(uint8_t byte, std::string& out) {
  if (pending_count_ != 0) {
    if (byte >= lower_ && byte <= upper_) {
      pending_[pending_count_++] = static_cast<char>(byte);
      lower_ = 0x80;
      upper_ = 0xBF;
      if (pending_count_ == wanted_count_) {
        out.append(pending_, pending_count_);
        pending_count_ = 0;
      }
      return;
    }
    Flush(out);  // the byte itself may start something new
  }
  if (byte < 0x80) {
    out.push_back(static_cast<char>(byte));
    return;
  }
  const LeadRule rule = RuleOf(byte);
  if (rule.continuation_count == 0) {
    Append(out, kReplacement);
    return;
  }
  pending_[0] = static_cast<char>(byte);
  pending_count_ = 1;
  wanted_count_ = static_cast<uint8_t>(1 + rule.continuation_count);
  lower_ = rule.lower;
  upper_ = rule.upper;
}

void LossyDecoder::Flush(std::string& out) {
  if (pending_count_ == 0) return;
  pending_count_ = 0;
  Append(out, kReplacement);
}

}  // namespace weft::utf8
