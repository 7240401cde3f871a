#include "grammar/regex.h"

#include <string>
#include <utility>
#include <vector>

#include "base/sentence.h"
#include "grammar/text_source.h"
#include "grammar/utf8.h"

namespace weft::grammar {
namespace {

const CodePointSet& DecimalDigits() {
  static const CodePointSet set = {{'0', '9'}};
  return set;
}
const CodePointSet& WordCharacters() {
  static const CodePointSet set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
// WhiteSpace and LineTerminator of ECMAScript.
const CodePointSet& Spaces() {
  static const CodePointSet set = {
      {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const CodePointSet& LineEnds() {
  static const CodePointSet set = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const RegexOptions& options, Rules& rules)
      : source_(pattern, "The regular expression"), options_(options), rules_(rules) {}

  Result<ExprId> Parse() {
    std::vector<ExprId> alternatives;
    do {
      const bool from_start = source_.Take("^");
      ASSIGN_OR_RETURN(const ExprId body, ParseSequence());
      const bool to_end = source_.Take("$");
      std::vector<ExprId> parts;
      if (options_.searches && !from_start) parts.push_back(AnyText());
      parts.push_back(body);
      if (options_.searches && !to_end) parts.push_back(AnyText());
      alternatives.push_back(rules_.Sequence(std::move(parts)));
    } while (source_.Take("|"));
    if (source_.Peek() == ')') return source_.Fail("has a ')' without a '('");
    if (!source_.at_end())
      return source_.Fail("has something behind '$'; it can only be at the end");
    return rules_.Choice(std::move(alternatives));
  }

 private:
  ExprId Write(const CodePointSet& set) {
    return options_.write ? options_.write(set) : rules_.Set(set);
  }
  ExprId AnyText() { return rules_.Repeat(Write(CodePointSet::All()), 0, kUnbounded); }

  // As JavaScript has it: everything up to "|", ")", "$" or the end.
  Result<ExprId> ParseSequence() {
    std::vector<ExprId> parts;
    while (!source_.at_end() && source_.Peek() != '|' && source_.Peek() != ')' &&
           source_.Peek() != '$') {
      ASSIGN_OR_RETURN(const ExprId atom, ParseAtom());
      ASSIGN_OR_RETURN(const ExprId part, ParseQuantifier(atom));
      parts.push_back(part);
      if (rules_.IsFull())
        return Error(ErrorCode::kLimitExceeded, "The regular expression is too long.");
    }
    return parts.empty() ? rules_.Empty() : rules_.Sequence(std::move(parts));
  }

  Result<ExprId> ParseAtom() {
    const char c = source_.Peek();
    if (c == '(') return ParseGroup();
    if (c == '[') return ParseClass();
    if (c == '\\') {
      ASSIGN_OR_RETURN(const CodePointSet set, ParseEscape());
      return Write(set);
    }
    if (c == '^')
      return source_.Fail(
          "has '^' in the middle; it can only be at the beginning of the expression or of one of "
          "its alternatives, outside of groups");
    if (c == '*' || c == '+' || c == '?' || c == '{')
      return source_.Fail(std::string("has '") + c + "' without anything to repeat");
    if (c == '.') {
      source_.Skip();
      return Write(LineEnds().Complement());
    }
    const uint32_t code_point = source_.TakeCodePoint();
    return Write({{code_point, code_point}});
  }

  Result<ExprId> ParseGroup() {
    const size_t begin = source_.at();
    source_.Skip();
    if (source_.Take("?")) {
      if (source_.Peek() == '<' && source_.Peek(1) != '=' && source_.Peek(1) != '!') {
        source_.Skip();
        source_.TakeWhile([](char c) { return c != '>'; });
        if (!source_.Take(">")) return source_.Fail("has a group whose name does not end");
      } else if (!source_.Take(":")) {
        return Unsupported(begin, "looks ahead or behind, or sets options: (?");
      }
    }
    if (++depth_ > kMaxRegexDepth)
      return Error(ErrorCode::kLimitExceeded,
                   Sentence("The regular expression has groups nested more than ", kMaxRegexDepth,
                            " deep."));
    std::vector<ExprId> alternatives;
    do {
      ASSIGN_OR_RETURN(const ExprId body, ParseSequence());
      alternatives.push_back(body);
    } while (source_.Take("|"));
    --depth_;
    if (source_.Peek() == '$')
      return source_.Fail(
          "has '$' in a group; it can only be at the end of the expression or of "
          "one of its alternatives, outside of groups");
    if (!source_.Take(")")) return source_.FailAt(begin, "has a '(' that is not closed");
    return rules_.Choice(std::move(alternatives));
  }

  Result<ExprId> ParseQuantifier(ExprId atom) {
    uint32_t least = 0, most = kUnbounded;
    const size_t begin = source_.at();
    if (source_.Take("+")) {
      least = 1;
    } else if (source_.Take("?")) {
      most = 1;
    } else if (source_.Take("{")) {
      const auto first = source_.TakeNumber();
      if (!first) return source_.FailAt(begin, "has '{' that begins no repeat; write \\{ for it");
      least = most = *first;
      if (source_.Take(",")) most = source_.TakeNumber().value_or(kUnbounded);
      if (!source_.Take("}"))
        return source_.FailAt(begin, "has a repeat that does not end with '}'");
    } else if (!source_.Take("*")) {
      return atom;
    }
    if (least > most) return source_.FailAt(begin, "has a repeat whose first number is the larger");
    if (least > kMaxRepeat || (most > kMaxRepeat && most != kUnbounded))
      return source_.FailAt(begin, Sentence("repeats more than ", kMaxRepeat, " times"));
    source_.Take("?");  // how much is tried first changes no text
    const char next = source_.Peek();
    if (next == '*' || next == '+' || next == '?' || next == '{')
      return source_.Fail("repeats a repeat");
    return rules_.Repeat(atom, least, most);
  }

  Error Unsupported(size_t at, const std::string& what) const {
    const Error error = source_.FailAt(at, what + ", which is not supported");
    return Error(ErrorCode::kUnsupported, error.message());
  }

  // Behind a backslash, in a class and outside of one.
  Result<CodePointSet> ParseEscape() {
    const size_t begin = source_.at();
    source_.Skip();
    if (source_.at_end()) return source_.Fail("ends with a backslash");
    const char c = source_.Peek();
    if (c == 'b' || c == 'B') return Unsupported(begin, "has a word boundary");
    if (c == 'p' || c == 'P') return Unsupported(begin, "has a property of Unicode");
    if (c == 'k' || (c >= '1' && c <= '9')) return Unsupported(begin, "refers to a group");
    const uint32_t code_point = source_.TakeCodePoint();
    switch (code_point) {
      case 'd':
        return DecimalDigits();
      case 'D':
        return DecimalDigits().Complement();
      case 'w':
        return WordCharacters();
      case 'W':
        return WordCharacters().Complement();
      case 's':
        return Spaces();
      case 'S':
        return Spaces().Complement();
      case 'x':
      case 'u':
        return ParseHex(begin, code_point == 'x' ? 2 : 4);
      default:
        break;
    }
    constexpr std::string_view kNames = "tnrfv0", kValues("\t\n\r\f\v\0", 6);
    const size_t name =
        code_point < 0x80 ? kNames.find(static_cast<char>(code_point)) : std::string_view::npos;
    if (name != std::string_view::npos) {
      const auto value = static_cast<uint32_t>(kValues[name]);
      return CodePointSet{{value, value}};
    }
    const bool is_letter =
        (code_point >= 'a' && code_point <= 'z') || (code_point >= 'A' && code_point <= 'Z');
    if (is_letter) return Unsupported(begin, "has an escape that it does not know");
    return CodePointSet{{code_point, code_point}};
  }

  Result<CodePointSet> ParseHex(size_t begin, size_t digits) {
    std::optional<uint32_t> value;
    if (digits == 4 && source_.Take("{")) {
      for (size_t count = 6; count > 0 && !value; --count) value = source_.TakeHex(count);
      if (!source_.Take("}")) value.reset();
    } else {
      value = source_.TakeHex(digits);
    }
    if (!value) return source_.FailAt(begin, "has an escape that names no character");
    return CodePointSet{{*value, *value}};
  }

  // "[a-z_]" with its brackets.
  Result<ExprId> ParseClass() {
    const size_t begin = source_.at();
    source_.Skip();
    const bool is_complement = source_.Take("^");
    CodePointSet set;
    while (source_.Peek() != ']') {
      if (source_.at_end()) return source_.FailAt(begin, "has a '[' that is not closed");
      const size_t item = source_.at();
      ASSIGN_OR_RETURN(const CodePointSet first, ParseClassItem());
      if (source_.Peek() != '-' || source_.Peek(1) == ']' || source_.Peek(1) == '\0') {
        set.Add(first);
        continue;
      }
      source_.Skip();
      ASSIGN_OR_RETURN(const CodePointSet last, ParseClassItem());
      const auto is_single = [](const CodePointSet& one) {
        return one.ranges().size() == 1 && one.ranges()[0].first == one.ranges()[0].last;
      };
      if (!is_single(first) || !is_single(last) || first.ranges()[0].first > last.ranges()[0].first)
        return source_.FailAt(item, "has a range of characters that is none");
      set.Add(first.ranges()[0].first, last.ranges()[0].first);
    }
    source_.Skip();
    if (is_complement) set = set.Complement();
    return Write(set);
  }

  Result<CodePointSet> ParseClassItem() {
    if (source_.Peek() == '\\' && source_.Peek(1) == 'b') {  // a backspace here
      source_.Skip(2);
      return CodePointSet{{8, 8}};
    }
    if (source_.Peek() == '\\') return ParseEscape();
    const uint32_t code_point = source_.TakeCodePoint();
    return CodePointSet{{code_point, code_point}};
  }

  TextSource source_;
  const RegexOptions& options_;
  Rules& rules_;
  size_t depth_ = 0;
};

}  // namespace

Result<ExprId> AddRegex(std::string_view pattern, const RegexOptions& options, Rules& rules) {
  if (pattern.size() > kMaxRegexBytes)
    return Error(ErrorCode::kLimitExceeded, Sentence("The regular expression has ", pattern.size(),
                                                     " bytes, the limit is ", kMaxRegexBytes, "."));
  if (!IsUtf8(pattern))
    return Error(ErrorCode::kInvalidArgument, "The regular expression is not valid UTF-8.");
  return RegexParser(pattern, options, rules).Parse();
}

}  // namespace weft::grammar
