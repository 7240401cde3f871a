// The rules that all JSON texts are made of. White space stands behind "{", "[", ":" and "," and in
// front of "}" and "]". It is a space, or a line's end and at most 20 spaces or tabs. So a model
// cannot go on with it for ever.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/rules.h"

namespace weft::grammar {

inline constexpr uint32_t kMaxIndent = 20;
// Numbers have so few digits in front of the point that any number is finite, and 64-bit integers
// are numbers.
inline constexpr uint32_t kMaxIntegerDigits = 19;
inline constexpr uint32_t kMaxFractionDigits = 24;
inline constexpr uint32_t kMaxExponentDigits = 2;

// Gives the text that a string is written as in JSON, without its quotes. Only what must be escaped
// is, in the shortest form.
std::string EscapedText(std::string_view utf8);
// Gives a number as JavaScript writes it.
std::string NumberText(const boost::json::value& number);

// Makes each rule where it is first asked for.
class JsonRules {
 public:
  explicit JsonRules(Rules& rules) : rules_(rules) {}

  ExprId Space();
  ExprId Integer();
  ExprId Number();
  ExprId String();
  ExprId Value();   // anything
  ExprId Object();  // any
  ExprId Array();   // any

  // Matches a character of a string, written in any way: itself, or escaped.
  ExprId AnyCharacter();
  // Matches a character of the set in its shortest form (RegexOptions::write).
  ExprId Character(const CodePointSet& set);
  // Matches a string of so many characters of any kind.
  ExprId StringOfLength(uint32_t least, uint32_t most);
  ExprId Quoted(ExprId characters) {
    return rules_.Sequence({rules_.Bytes("\""), characters, rules_.Bytes("\"")});
  }
  // Matches a key that is none of `names`, with its quotes.
  ExprId OtherKey(const std::vector<std::string>& names);
  // Matches this value and no other.
  ExprId Literal(const boost::json::value& value);
  // Matches "[", the elements and "]". `elements` stands between white space, and may be missing.
  ExprId Enclosed(std::string_view open, std::optional<ExprId> elements, bool may_be_empty,
                  std::string_view close);
  // Matches what stands between two elements.
  ExprId Comma() { return rules_.Sequence({rules_.Bytes(","), Space()}); }
  ExprId Member(ExprId key, ExprId value) {
    return rules_.Sequence({key, rules_.Bytes(":"), Space(), value});
  }

 private:
  ExprId Once(std::optional<ExprId>& made, const char* name, ExprId (JsonRules::*make)());
  ExprId MakeSpace();
  ExprId MakeInteger();
  ExprId MakeNumber();
  ExprId MakeString();
  ExprId MakeValue();
  ExprId MakeObject();
  ExprId MakeArray();
  ExprId MakeAnyCharacter();

  Rules& rules_;
  std::optional<ExprId> space_, integer_, number_, string_, value_, object_, array_, character_;
};

}  // namespace weft::grammar
