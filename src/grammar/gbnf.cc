#include "grammar/gbnf.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/sentence.h"
#include "grammar/text_source.h"
#include "grammar/utf8.h"

namespace weft::grammar {
namespace {

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, Rules& rules) : source_(text, "The grammar"), rules_(rules) {}

  Result<RuleId> Parse() {
    SkipSpace(true);
    while (!source_.at_end()) TRY(ParseRule());
    const auto root = names_.find("root");
    if (root == names_.end() || !rules_.rules()[root->second].body)
      return Error(ErrorCode::kInvalidArgument,
                   "The grammar has no rule 'root', which every text begins with.");
    return root->second;
  }

 private:
  // Spaces and comments, and line ends where a rule may go on behind them.
  void SkipSpace(bool over_lines) {
    while (true) {
      const char c = source_.Peek();
      if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
        source_.Skip();
      } else if (c == '#') {
        source_.TakeWhile([](char byte) { return byte != '\n' && byte != '\r'; });
      } else {
        return;
      }
    }
  }

  RuleId RuleOf(const std::string& name) {
    const auto [entry, added] = names_.try_emplace(name, 0);
    if (added) entry->second = rules_.Declare(name);
    return entry->second;
  }

  Status ParseRule() {
    const std::string name(source_.TakeWhile(IsNameByte));
    if (name.empty()) return source_.Fail("lacks the name of a rule");
    const RuleId rule = RuleOf(name);
    if (rules_.rules()[rule].body) return source_.Fail("defines the rule '" + name + "' twice");
    SkipSpace(false);
    if (!source_.Take("::=")) return source_.Fail("lacks '::=' behind '" + name + "'");
    SkipSpace(true);
    ASSIGN_OR_RETURN(const ExprId body, ParseAlternatives(false));
    rules_.Define(rule, body);
    if (!source_.at_end() && source_.Peek() != '\n' && source_.Peek() != '\r')
      return source_.Fail("has something that is part of no rule");
    SkipSpace(true);
    return OkStatus();
  }

  Result<ExprId> ParseAlternatives(bool in_group) {
    std::vector<ExprId> alternatives;
    while (true) {
      ASSIGN_OR_RETURN(const ExprId sequence, ParseSequence(in_group));
      alternatives.push_back(sequence);
      if (!source_.Take("|")) return rules_.Choice(std::move(alternatives));
      SkipSpace(true);
    }
  }

  Result<ExprId> ParseSequence(bool in_group) {
    std::vector<ExprId> parts;
    while (true) {
      const char c = source_.Peek();
      ExprId item = 0;
      if (c == '"') {
        ASSIGN_OR_RETURN(item, ParseLiteral());
      } else if (c == '[') {
        ASSIGN_OR_RETURN(item, ParseClass());
      } else if (c == '.') {
        source_.Skip();
        item = rules_.Set(CodePointSet{{'\n', '\n'}, {'\r', '\r'}}.Complement());
      } else if (c == '(') {
        ASSIGN_OR_RETURN(item, ParseGroup());
      } else if (IsNameByte(c)) {
        item = rules_.Call(RuleOf(std::string(source_.TakeWhile(IsNameByte))));
      } else if (c == '<' || c == '!') {
        const Error error = source_.Fail("names a token, which is not supported; name its text");
        return Error(ErrorCode::kUnsupported, error.message());
      } else {
        return parts.empty() ? rules_.Empty() : rules_.Sequence(std::move(parts));
      }
      SkipSpace(in_group);
      ASSIGN_OR_RETURN(item, ParseRepeats(item, in_group));
      parts.push_back(item);
      if (rules_.IsFull()) return Error(ErrorCode::kLimitExceeded, "The grammar is too long.");
    }
  }

  Result<ExprId> ParseGroup() {
    const size_t begin = source_.at();
    source_.Skip();
    if (++depth_ > kMaxGbnfDepth)
      return Error(ErrorCode::kLimitExceeded,
                   Sentence("The grammar has groups nested more than ", kMaxGbnfDepth, " deep."));
    SkipSpace(true);
    ASSIGN_OR_RETURN(const ExprId body, ParseAlternatives(true));
    --depth_;
    if (!source_.Take(")")) return source_.FailAt(begin, "has a '(' that is not closed");
    return body;
  }

  // "*", "+", "?", "{2}", "{2,}", "{,5}", "{2,5}", any number of them.
  Result<ExprId> ParseRepeats(ExprId item, bool in_group) {
    while (true) {
      const size_t begin = source_.at();
      uint32_t least = 0, most = kUnbounded;
      if (source_.Take("+")) {
        least = 1;
      } else if (source_.Take("?")) {
        most = 1;
      } else if (source_.Take("{")) {
        SkipSpace(false);
        const auto first = source_.TakeNumber();
        least = first.value_or(0);
        SkipSpace(false);
        if (source_.Take(",")) {
          SkipSpace(false);
          most = source_.TakeNumber().value_or(kUnbounded);
          SkipSpace(false);
        } else {
          if (!first) return source_.FailAt(begin, "has a repeat without a number");
          most = least;
        }
        if (!source_.Take("}"))
          return source_.FailAt(begin, "has a repeat that does not end with '}'");
      } else if (!source_.Take("*")) {
        return item;
      }
      if (least > most)
        return source_.FailAt(begin, "has a repeat whose first number is the larger");
      if (least > kMaxRepeat || (most > kMaxRepeat && most != kUnbounded))
        return source_.FailAt(begin, Sentence("repeats more than ", kMaxRepeat, " times"));
      item = rules_.Repeat(item, least, most);
      SkipSpace(in_group);
    }
  }

  Result<uint32_t> ParseCharacter() {
    const size_t begin = source_.at();
    if (!source_.Take("\\")) return source_.TakeCodePoint();
    if (source_.at_end()) return source_.Fail("ends with a backslash");
    const uint32_t code_point = source_.TakeCodePoint();
    switch (code_point) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^':
        return code_point;
      case 'x':
      case 'u':
      case 'U': {
        const auto value = source_.TakeHex(code_point == 'x' ? 2 : code_point == 'u' ? 4 : 8);
        if (!value) return source_.FailAt(begin, "has an escape that names no character");
        return *value;
      }
      default:
        return source_.FailAt(begin, "has an escape that it does not know");
    }
  }

  Result<ExprId> ParseLiteral() {
    const size_t begin = source_.at();
    source_.Skip();
    std::string bytes;
    while (source_.Peek() != '"') {
      if (source_.at_end()) return source_.FailAt(begin, "has a '\"' that is not closed");
      ASSIGN_OR_RETURN(const uint32_t code_point, ParseCharacter());
      AppendUtf8(bytes, code_point);
    }
    source_.Skip();
    return rules_.Bytes(bytes);
  }

  Result<ExprId> ParseClass() {
    const size_t begin = source_.at();
    source_.Skip();
    const bool is_complement = source_.Take("^");
    CodePointSet set;
    while (source_.Peek() != ']') {
      if (source_.at_end()) return source_.FailAt(begin, "has a '[' that is not closed");
      const size_t item = source_.at();
      ASSIGN_OR_RETURN(const uint32_t first, ParseCharacter());
      uint32_t last = first;
      if (source_.Peek() == '-' && source_.Peek(1) != ']') {
        source_.Skip();
        if (source_.at_end()) return source_.FailAt(begin, "has a '[' that is not closed");
        ASSIGN_OR_RETURN(last, ParseCharacter());
      }
      if (last < first) return source_.FailAt(item, "has a range of characters that is none");
      set.Add(first, last);
    }
    source_.Skip();
    return rules_.Set(is_complement ? set.Complement() : set);
  }

  TextSource source_;
  Rules& rules_;
  std::map<std::string, RuleId> names_;
  size_t depth_ = 0;
};

}  // namespace

Result<RuleId> AddGbnf(std::string_view text, Rules& rules) {
  if (text.size() > kMaxGbnfBytes)
    return Error(ErrorCode::kLimitExceeded, Sentence("The grammar has ", text.size(),
                                                     " bytes, the limit is ", kMaxGbnfBytes, "."));
  if (!IsUtf8(text)) return Error(ErrorCode::kInvalidArgument, "The grammar is not valid UTF-8.");
  return GbnfParser(text, rules).Parse();
}

}  // namespace weft::grammar
