#include "chat/literal.h"

#include <boost/json/serialize.hpp>
#include <boost/json/string_view.hpp>

#include "text/utf8.h"

namespace weft::chat {
namespace {

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string Quoted(std::string_view text) {
  return boost::json::serialize(boost::json::string_view(text.data(), text.size()));
}

std::string ObjectOf(const std::vector<Member>& members) {
  std::string json = "{";
  for (const auto& [key, value] : members) {
    if (json.size() > 1) json += ", ";
    json += Quoted(key) + ": " + value;
  }
  return json + "}";
}

void LiteralReader::SkipSpace() {
  while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
}

bool LiteralReader::Accept(std::string_view expected) {
  SkipSpace();
  if (!rest().starts_with(expected)) return false;
  at_ += expected.size();
  return true;
}

bool LiteralReader::AtEnd() {
  SkipSpace();
  return at_ == text_.size();
}

bool LiteralReader::Until(std::string_view stop, std::string_view* found) {
  const size_t end = text_.find(stop, at_);
  if (end == std::string_view::npos) return false;
  *found = text_.substr(at_, end - at_);
  at_ = end + stop.size();
  return true;
}

bool LiteralReader::Value(std::string* json) {
  SkipSpace();
  if (at_ == text_.size()) return false;
  const char c = text_[at_];
  if (c == '"' || c == '\'') {
    std::string text;
    if (!String(&text)) return false;
    *json += Quoted(text);
    return true;
  }
  if (c == '{' || c == '[') {
    ++at_;
    return Items(c == '{' ? '}' : ']', json, c == '{');
  }
  return c == '-' || IsDigit(c) ? Number(json) : Word(json);
}

// Behind the bracket that opens. A comma before the one that closes is Python's.
bool LiteralReader::Items(char close, std::string* json, bool with_keys) {
  if (++depth_ > kMaxDepth) return false;
  *json += with_keys ? '{' : '[';
  for (bool is_first = true;; is_first = false) {
    if (Accept(std::string_view(&close, 1))) break;
    if (!is_first) {
      if (!Accept(",")) return false;
      if (Accept(std::string_view(&close, 1))) break;
      *json += ", ";
    }
    if (with_keys) {
      std::string key;
      if (!String(&key) || !Accept(":")) return false;
      *json += Quoted(key) + ": ";
    }
    if (!Value(json)) return false;
  }
  *json += close;
  --depth_;
  return true;
}

bool LiteralReader::Members(std::vector<Member>* members) {
  if (!Accept("{")) return false;
  ++depth_;
  for (bool is_first = true;; is_first = false) {
    if (Accept("}")) break;
    if (!is_first) {
      if (!Accept(",")) return false;
      if (Accept("}")) break;
    }
    Member member;
    if (!String(&member.first) || !Accept(":") || !Value(&member.second)) return false;
    members->push_back(std::move(member));
  }
  --depth_;
  return true;
}

bool LiteralReader::String(std::string* text) {
  SkipSpace();
  if (at_ == text_.size() || (text_[at_] != '"' && text_[at_] != '\'')) return false;
  const char quote = text_[at_++];
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == quote) return true;
    if (c != '\\') {
      *text += c;
    } else if (!Escape(text)) {
      return false;
    }
  }
  return false;
}

bool LiteralReader::Hex(int digits, uint32_t* code) {
  *code = 0;
  for (; digits > 0; --digits) {
    const int digit = at_ < text_.size() ? HexDigit(text_[at_]) : -1;
    if (digit < 0) return false;
    *code = *code * 16 + static_cast<uint32_t>(digit);
    ++at_;
  }
  return true;
}

// Behind the backslash. JSON writes characters beyond 16 bits as two halves, of which one alone
// stands for nothing.
bool LiteralReader::Escape(std::string* text) {
  if (at_ == text_.size()) return false;
  const char c = text_[at_++];
  constexpr std::string_view kLetters = "nrtbf/\\\"'0";
  constexpr std::string_view kMeanings = std::string_view("\n\r\t\b\f/\\\"'\0", 10);
  if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
    *text += kMeanings[known];
    return true;
  }
  if (c == '\n') return true;
  uint32_t code = 0;
  if (c != 'u' && c != 'x' && c != 'U') {
    *text += '\\';  // Python keeps what it does not know
    *text += c;
    return true;
  }
  if (!Hex(c == 'u' ? 4 : c == 'x' ? 2 : 8, &code)) return false;
  if (c == 'u' && code >= 0xD800 && code < 0xDC00 && rest().starts_with("\\u")) {
    const size_t before = at_;
    uint32_t low = 0;
    at_ += 2;
    if (Hex(4, &low) && low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else {
      at_ = before;
    }
  }
  const bool is_character = code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000);
  utf8::Append(*text, is_character ? code : utf8::kReplacement);
  return true;
}

// As JSON has it: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool LiteralReader::Number(std::string* json) {
  const size_t begin = at_;
  const auto digits = [this] {
    const size_t first = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    return at_ - first;
  };
  const auto next_is = [this](std::string_view any) {
    return at_ < text_.size() && any.find(text_[at_]) != std::string_view::npos;
  };
  if (next_is("-")) ++at_;
  const bool zero = next_is("0");
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (next_is(".")) {
    ++at_;
    if (digits() == 0) return false;
  }
  if (next_is("eE")) {
    ++at_;
    if (next_is("+-")) ++at_;
    if (digits() == 0) return false;
  }
  *json += text_.substr(begin, at_ - begin);
  return true;
}

bool LiteralReader::Word(std::string* json) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"true", "true"},   {"True", "true"}, {"false", "false"},
      {"False", "false"}, {"null", "null"}, {"None", "null"}};
  std::string name;
  if (!Name(&name)) return false;
  for (const auto& [word, meaning] : kWords) {
    if (name != word) continue;
    *json += meaning;
    return true;
  }
  return false;
}

bool LiteralReader::Name(std::string* name) {
  SkipSpace();
  const size_t begin = at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const bool is_part = IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         c == '_' || c == '.' || c == '-' || static_cast<unsigned char>(c) >= 0x80;
    if (!is_part) break;
    ++at_;
  }
  *name = std::string(text_.substr(begin, at_ - begin));
  return at_ > begin;
}

}  // namespace weft::chat
