#include "text/jinja/lexer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/jinja/integer.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Jinja's tags are cut by \s, which takes Python's white space.
bool SpaceAt(std::string_view text, size_t at) {
  return at < text.size() && python::IsSpace(utf8::Next(text, at));
}
size_t SkipSpace(std::string_view text, size_t at) {
  while (SpaceAt(text, at)) at += utf8::LengthOf(text[at]);
  return at;
}

// Longest first.
constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                           "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                           "]",  "{",  "}",  ",",  ".",  ":",  "|"};

void TrimRight(std::string& text) {
  while (!text.empty()) {
    const size_t begin = utf8::Previous(text, text.size());
    size_t at = begin;
    if (!python::IsSpace(utf8::Next(text, at))) break;
    text.resize(begin);
  }
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      TRY(Text());
      if (at_ >= source_.size()) break;
      const char kind = source_[at_ + 1];
      if (kind == '#') {
        TRY(Comment());
      } else if (kind == '%' && RawTag()) {
        TRY(Raw());
      } else {
        TRY(Tag(kind == '%'));
      }
    }
    Push(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // Text up to the next tag, with white space cut on both sides as the tags ask.
  Status Text() {
    size_t end = source_.find('{', at_);
    while (end != std::string_view::npos && !TagAt(end)) end = source_.find('{', end + 1);
    end = std::min(end, source_.size());
    const size_t begin = std::min(SkipAfterTag(), end);
    std::string text(source_.substr(begin, end - begin));
    if (end < source_.size()) CutBeforeTag(end, text);
    if (!text.empty()) Push(Token::Kind::kText, std::move(text));
    Advance(end);
    return OkStatus();
  }

  bool TagAt(size_t at) const {
    return source_[at] == '{' && at + 1 < source_.size() &&
           (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#');
  }

  // Where text begins after the tag that ended here.
  size_t SkipAfterTag() const {
    size_t at = at_;
    if (strip_next_) {
      at = SkipSpace(source_, at);
    } else if (trim_newline_ && at < source_.size() && source_[at] == '\n') {
      ++at;
    }
    return at;
  }

  void CutBeforeTag(size_t tag, std::string& text) const {
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign == '-') {
      TrimRight(text);
      return;
    }
    if (source_[tag + 1] == '{' || sign == '+') return;
    size_t line_start = tag;
    while (line_start > 0 && source_[line_start - 1] != '\n') {
      const size_t before = utf8::Previous(source_, line_start);
      if (!SpaceAt(source_, before)) return;
      line_start = before;
    }
    text.resize(text.size() - std::min(text.size(), tag - line_start));
  }

  Status Comment() {
    const size_t close = source_.find("#}", at_ + 2);
    if (close == std::string_view::npos) return Fault("a comment is not closed by #}");
    strip_next_ = close > at_ + 2 && source_[close - 1] == '-';
    trim_newline_ = true;
    Advance(close + 2);
    return OkStatus();
  }

  // The end of `{% name %}` at `at`, or nothing.
  std::optional<size_t> EndOfPlainTag(size_t at, std::string_view name) const {
    at += 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    at = SkipSpace(source_, at);
    if (!source_.substr(at).starts_with(name)) return std::nullopt;
    at += name.size();
    at = SkipSpace(source_, at);
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    return source_.substr(at).starts_with("%}") ? std::optional(at + 2) : std::nullopt;
  }

  bool RawTag() const { return EndOfPlainTag(at_, "raw").has_value(); }

  // {% raw %} text {% endraw %}
  Status Raw() {
    const size_t begin = *EndOfPlainTag(at_, "raw");
    NoteTagEnd(begin, true);
    Advance(begin);
    for (size_t at = begin; at < source_.size(); ++at) {
      if (source_.substr(at, 2) != "{%") continue;
      const auto end = EndOfPlainTag(at, "endraw");
      if (!end) continue;
      const size_t text_begin = std::min(SkipAfterTag(), at);
      std::string text(source_.substr(text_begin, at - text_begin));
      CutBeforeTag(at, text);
      if (!text.empty()) Push(Token::Kind::kText, std::move(text));
      NoteTagEnd(*end, true);
      Advance(*end);
      return OkStatus();
    }
    return Fault("{% raw %} is not closed by {% endraw %}");
  }

  // What the tag that ends before `end` asks of the text after it.
  void NoteTagEnd(size_t end, bool block) {
    const char sign = source_[end - 3];
    strip_next_ = sign == '-';
    trim_newline_ = block && sign != '+';
  }

  Status Tag(bool block) {
    Push(block ? Token::Kind::kBlockBegin : Token::Kind::kPrintBegin, "");
    size_t at = at_ + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    Advance(at);
    const std::string_view close = block ? "%}" : "}}";
    int braces = 0;
    while (true) {
      Advance(SkipSpace(source_, at_));
      if (at_ >= source_.size()) return Fault("a tag is not closed by " + std::string(close));
      const std::string_view rest = source_.substr(at_);
      const bool signed_close =
          (rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(close);
      // Inside an object, }} closes two of them.
      if (signed_close || (rest.starts_with(close) && (block || braces == 0))) {
        const size_t end = at_ + close.size() + (signed_close ? 1 : 0);
        NoteTagEnd(end, block);
        Push(block ? Token::Kind::kBlockEnd : Token::Kind::kPrintEnd, "");
        Advance(end);
        return OkStatus();
      }
      TRY(Expression());
      if (tokens_.back().kind == Token::Kind::kOperator) {
        if (tokens_.back().text == "{") ++braces;
        if (tokens_.back().text == "}") --braces;
      }
    }
  }

  Status Expression() {
    const char c = source_[at_];
    if (IsNameStart(c)) {
      size_t end = at_;
      while (end < source_.size() && (IsNameStart(source_[end]) || IsDigit(source_[end]))) ++end;
      return PushFrom(Token::Kind::kName, end);
    }
    if (IsDigit(c)) return Number();
    if (c == '"' || c == '\'') return String(c);
    for (const std::string_view symbol : kOperators) {
      if (symbol[0] == c && source_.substr(at_).starts_with(symbol)) {
        return PushFrom(Token::Kind::kOperator, at_ + symbol.size());
      }
    }
    return Fault(std::string("the character '") + c + "' has no meaning in a tag");
  }

  // An integer may have a prefix, 0x1F; a number may have _ between digits.
  Status Number() {
    for (const auto& [prefix, base] :
         {std::pair("xX", 16), std::pair("oO", 8), std::pair("bB", 2)}) {
      if (source_[at_] != '0' || at_ + 1 >= source_.size()) break;
      if (std::string_view(prefix).find(source_[at_ + 1]) == std::string_view::npos) continue;
      size_t end = at_ + 2;
      while (end < source_.size() &&
             (source_[end] == '_' || ParseDigits(source_.substr(end, 1), base)))
        ++end;
      std::string digits(source_.substr(at_ + 2, end - at_ - 2));
      std::erase(digits, '_');
      const auto value = ParseDigits(digits, base);
      if (!value)
        return Fault("an integer of at most 128 bits is expected behind 0" +
                     std::string(1, source_[at_ + 1]));
      Push(Token::Kind::kInteger, DigitsOf(*value));
      Advance(end);
      return OkStatus();
    }
    return DecimalNumber();
  }

  Status DecimalNumber() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (IsDigit(source_[end]) || source_[end] == '_')) ++end;
    };
    const auto digit_at = [&](size_t at) { return at < source_.size() && IsDigit(source_[at]); };
    digits();
    bool real = false;
    // In x.0.1 the parts are indices, not a number.
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == Token::Kind::kOperator &&
                           tokens_.back().text == ".";
    if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      real = true;
      ++end;
      digits();
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
      if (digit_at(end + 1 + sign)) {
        real = true;
        end += 1 + sign;
        digits();
      }
    }
    std::string text(source_.substr(at_, end - at_));
    std::erase(text, '_');
    Push(real ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(text));
    Advance(end);
    return OkStatus();
  }

  Status String(char quote) {
    size_t at = at_ + 1;
    std::string text;
    while (at < source_.size() && source_[at] != quote) {
      if (source_[at] == '\\' && at + 1 < source_.size()) {
        at = Escape(at + 1, text);
      } else {
        text.push_back(source_[at++]);
      }
    }
    if (at >= source_.size()) return Fault("a string is not closed");
    Push(Token::Kind::kString, std::move(text));
    Advance(at + 1);
    return OkStatus();
  }

  std::optional<uint32_t> Hex(size_t at, size_t digit_count) const {
    if (at + digit_count > source_.size()) return std::nullopt;
    uint32_t value = 0;
    for (const char c : source_.substr(at, digit_count)) {
      const size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
      if (digit == std::string_view::npos) return std::nullopt;
      value = value << 4 | static_cast<uint32_t>(digit);
    }
    return value;
  }

  // The escape whose letter is at `at`, as Python reads it; returns where it ends. An unknown one
  // stays as it is.
  size_t Escape(size_t at, std::string& text) const {
    const char c = source_[at];
    static constexpr std::string_view kLetters = "ntrbfva\\'\"";
    static constexpr std::string_view kMeanings("\n\t\r\b\f\v\a\\'\"");
    const size_t simple = kLetters.find(c);
    if (simple != std::string_view::npos) {
      text.push_back(kMeanings[simple]);
      return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c >= '0' && c <= '7') {  // \101
      size_t octal_end = at + 1;
      while (octal_end < source_.size() && octal_end < at + 3 && source_[octal_end] >= '0' &&
             source_[octal_end] <= '7') {
        ++octal_end;
      }
      const auto code = ParseDigits(source_.substr(at, octal_end - at), 8);
      utf8::Append(text, static_cast<uint32_t>(*code));
      return octal_end;
    }
    const size_t digit_count = c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
    auto value = digit_count == 0 ? std::nullopt : Hex(at + 1, digit_count);
    if (!value) {
      text.push_back('\\');
      return at;
    }
    size_t end = at + 1 + digit_count;
    if (*value >= 0xD800 && *value < 0xDC00 && source_.substr(end, 2) == "\\u") {
      const auto low = Hex(end + 2, 4);
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        value = 0x10000 + ((*value - 0xD800) << 10) + (*low - 0xDC00);
        end += 6;
      }
    }
    const bool scalar = *value < 0xD800 || (*value >= 0xE000 && *value < 0x110000);
    utf8::Append(text, scalar ? *value : utf8::kReplacement);
    return end;
  }

  void Push(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }
  Status PushFrom(Token::Kind kind, size_t end) {
    Push(kind, std::string(source_.substr(at_, end - at_)));
    Advance(end);
    return OkStatus();
  }
  void Advance(size_t to) {
    for (; at_ < to; ++at_) line_ += source_[at_] == '\n';
  }
  Error Fault(const std::string& what) const {
    return Error(ErrorCode::kInvalidData,
                 "Line " + std::to_string(line_) + " of the chat template: " + what + ".");
  }

  std::string_view source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool strip_next_ = false;
  bool trim_newline_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  // Jinja makes one newline of \r\n and \r before all else, and drops one at the end.
  std::string lines;
  lines.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    lines.push_back(source[i] == '\r' ? '\n' : source[i]);
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return Lexer(lines).Run();
}

}  // namespace weft::jinja
