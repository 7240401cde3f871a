#include "grammar/json_rules.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "grammar/utf8.h"

namespace weft::grammar {
namespace json = boost::json;

namespace {

// What a string may hold as it is.
const CodePointSet& RawCharacters() {
  static const CodePointSet set = CodePointSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.Complement();
  return set;
}

constexpr std::pair<char, char> kShortEscapes[] = {
    {'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};

// `code_point` is one that must be escaped.
std::string EscapeOf(uint32_t code_point) {
  for (const auto& [character, name] : kShortEscapes)
    if (code_point == static_cast<uint8_t>(character)) return {'\\', name};
  constexpr std::string_view kHex = "0123456789abcdef";
  return {'\\', 'u', '0', '0', kHex[code_point >> 4], kHex[code_point & 15]};
}

std::string WrittenCharacter(uint32_t code_point) {
  if (!RawCharacters().Contains(code_point)) return EscapeOf(code_point);
  std::string text;
  AppendUtf8(text, code_point);
  return text;
}

// Strings as a tree of characters.
struct KeyTree {
  bool is_key = false;
  std::map<uint32_t, KeyTree> next;
};

}  // namespace

std::string EscapedText(std::string_view utf8) {
  std::string out;
  for (size_t at = 0; at < utf8.size();)
    out += WrittenCharacter(NextCodePoint(utf8, at).value_or(0xFFFD));
  return out;
}

// JavaScript writes 0.000025 and 1e-7; to_chars would choose 2.5e-05 and 1e-07.
std::string NumberText(const json::value& number) {
  if (number.is_int64()) return std::to_string(number.as_int64());
  if (number.is_uint64()) return std::to_string(number.as_uint64());
  const double value = number.as_double(), size = std::abs(value);
  char digits[40];
  if (size == 0) return "0";
  if (size >= 1e-6 && size < 1e21) {
    const auto fixed = std::chars_format::fixed;
    return {digits, std::to_chars(digits, digits + sizeof(digits), value, fixed).ptr};
  }
  std::string text(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text[exponent + 2] == '0') text.erase(exponent + 2, 1);
  return text;
}

ExprId JsonRules::Once(std::optional<ExprId>& made, const char* name, ExprId (JsonRules::*make)()) {
  if (made) return *made;
  const RuleId rule = rules_.Declare(name, /*shared=*/true);
  made = rules_.Call(rule);  // first, since values hold values
  rules_.Define(rule, (this->*make)());
  return *made;
}

ExprId JsonRules::Space() {
  return Once(space_, "space", &JsonRules::MakeSpace);
}
ExprId JsonRules::Integer() {
  return Once(integer_, "integer", &JsonRules::MakeInteger);
}
ExprId JsonRules::Number() {
  return Once(number_, "number", &JsonRules::MakeNumber);
}
ExprId JsonRules::String() {
  return Once(string_, "string", &JsonRules::MakeString);
}
ExprId JsonRules::Value() {
  return Once(value_, "value", &JsonRules::MakeValue);
}
ExprId JsonRules::Object() {
  return Once(object_, "object", &JsonRules::MakeObject);
}
ExprId JsonRules::Array() {
  return Once(array_, "array", &JsonRules::MakeArray);
}
ExprId JsonRules::AnyCharacter() {
  return Once(character_, "character", &JsonRules::MakeAnyCharacter);
}

ExprId JsonRules::MakeSpace() {
  const ExprId indent = rules_.Repeat(rules_.Set({{' ', ' '}, {'\t', '\t'}}), 0, kMaxIndent);
  return rules_.Choice(
      {rules_.Empty(), rules_.Bytes(" "), rules_.Sequence({rules_.Bytes("\n"), indent})});
}

ExprId JsonRules::MakeInteger() {
  const ExprId digit = rules_.Set({{'0', '9'}});
  const ExprId rest = rules_.Repeat(digit, 0, kMaxIntegerDigits - 1);
  return rules_.Sequence(
      {rules_.Optional(rules_.Bytes("-")),
       rules_.Choice({rules_.Bytes("0"), rules_.Sequence({rules_.Set({{'1', '9'}}), rest})})});
}

ExprId JsonRules::MakeNumber() {
  const ExprId digit = rules_.Set({{'0', '9'}});
  const ExprId fraction =
      rules_.Sequence({rules_.Bytes("."), rules_.Repeat(digit, 1, kMaxFractionDigits)});
  const ExprId exponent = rules_.Sequence({rules_.Set({{'E', 'E'}, {'e', 'e'}}),
                                           rules_.Optional(rules_.Set({{'+', '+'}, {'-', '-'}})),
                                           rules_.Repeat(digit, 1, kMaxExponentDigits)});
  return rules_.Sequence({MakeInteger(), rules_.Optional(fraction), rules_.Optional(exponent)});
}

// Escapes of halves of a surrogate pair come in pairs: one alone is no character.
ExprId JsonRules::MakeAnyCharacter() {
  const CodePointSet hex_digits = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const ExprId hex = rules_.Set(hex_digits);
  const ExprId d = rules_.Set({{'D', 'D'}, {'d', 'd'}});
  const ExprId not_d = rules_.Set(hex_digits.Minus({{'D', 'D'}, {'d', 'd'}}));
  const ExprId high = rules_.Set({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const ExprId low = rules_.Set({{'C', 'F'}, {'c', 'f'}});
  const ExprId whole = rules_.Choice({rules_.Sequence({not_d, hex, hex, hex}),
                                      rules_.Sequence({d, rules_.Set({{'0', '7'}}), hex, hex})});
  const ExprId pair = rules_.Sequence({d, high, hex, hex, rules_.Bytes("\\u"), d, low, hex, hex});
  const ExprId escape =
      rules_.Choice({rules_.Set({{'"', '"'},
                                 {'/', '/'},
                                 {'\\', '\\'},
                                 {'b', 'b'},
                                 {'f', 'f'},
                                 {'n', 'n'},
                                 {'r', 'r'},
                                 {'t', 't'}}),
                     rules_.Sequence({rules_.Bytes("u"), rules_.Choice({whole, pair})})});
  return rules_.Choice(
      {rules_.Set(RawCharacters()), rules_.Sequence({rules_.Bytes("\\"), escape})});
}

ExprId JsonRules::MakeString() {
  return Quoted(rules_.Repeat(MakeAnyCharacter(), 0, kUnbounded));
}

ExprId JsonRules::StringOfLength(uint32_t least, uint32_t most) {
  if (least == 0 && most == kUnbounded) return String();
  return Quoted(rules_.Repeat(AnyCharacter(), least, most));
}

ExprId JsonRules::Character(const CodePointSet& set) {
  std::vector<ExprId> ways;
  const CodePointSet raw = set.And(RawCharacters());
  if (!raw.empty()) ways.push_back(rules_.Set(raw));
  const CodePointSet escaped = set.Minus(RawCharacters());
  for (const CodePointRange& range : escaped.ranges())
    for (uint32_t code_point = range.first; code_point <= range.last; ++code_point)
      ways.push_back(rules_.Bytes(EscapeOf(code_point)));
  return rules_.Choice(std::move(ways));
}

ExprId JsonRules::MakeValue() {
  return rules_.Choice({String(), Number(), Object(), Array(), rules_.Bytes("true"),
                        rules_.Bytes("false"), rules_.Bytes("null")});
}

ExprId JsonRules::MakeObject() {
  const ExprId member = Member(String(), Value());
  const ExprId more = rules_.Repeat(rules_.Sequence({Comma(), member}), 0, kUnbounded);
  return Enclosed("{", rules_.Sequence({member, more}), true, "}");
}

ExprId JsonRules::MakeArray() {
  const ExprId more = rules_.Repeat(rules_.Sequence({Comma(), Value()}), 0, kUnbounded);
  return Enclosed("[", rules_.Sequence({Value(), more}), true, "]");
}

ExprId JsonRules::Enclosed(std::string_view open, std::optional<ExprId> elements, bool may_be_empty,
                           std::string_view close) {
  std::vector<ExprId> parts = {rules_.Bytes(open), Space()};
  if (elements) {
    const ExprId inside = rules_.Sequence({*elements, Space()});
    parts.push_back(may_be_empty ? rules_.Optional(inside) : inside);
  }
  parts.push_back(rules_.Bytes(close));
  return rules_.Sequence(std::move(parts));
}

// A key leaves the tree of the names at some character, or ends where no name does. Each character
// has one form here, so that no name comes back in disguise.
ExprId JsonRules::OtherKey(const std::vector<std::string>& names) {
  KeyTree tree;
  for (const std::string& name : names) {
    KeyTree* node = &tree;
    for (size_t at = 0; at < name.size();)
      node = &node->next[NextCodePoint(name, at).value_or(0xFFFD)];
    node->is_key = true;
  }
  const ExprId rest =
      rules_.Share("", rules_.Repeat(Character(CodePointSet::All()), 0, kUnbounded));
  // From the leaves up.
  struct Open {
    const KeyTree* node;
    std::map<uint32_t, KeyTree>::const_iterator next;
    std::vector<ExprId> ways;
  };
  std::vector<Open> path = {{&tree, tree.next.begin(), {}}};
  while (true) {
    Open& top = path.back();
    if (top.next != top.node->next.end()) {
      const KeyTree& child = top.next->second;
      path.push_back({&child, child.next.begin(), {}});
      continue;
    }
    CodePointSet taken;
    for (const auto& [code_point, child] : top.node->next) taken.Add(code_point);
    const CodePointSet others = taken.Complement();
    std::vector<ExprId> ways = std::move(top.ways);
    if (!top.node->is_key) ways.push_back(rules_.Empty());
    ways.push_back(rules_.Sequence({Character(others), rest}));
    const ExprId made = rules_.Choice(std::move(ways));
    path.pop_back();
    if (path.empty()) return Quoted(made);
    const uint32_t code_point = path.back().next->first;
    ++path.back().next;
    path.back().ways.push_back(rules_.Sequence({rules_.Bytes(WrittenCharacter(code_point)), made}));
  }
}

ExprId JsonRules::Literal(const json::value& value) {
  if (value.is_string()) return rules_.Bytes("\"" + EscapedText(value.as_string()) + "\"");
  if (value.is_number()) return rules_.Bytes(NumberText(value));
  if (value.is_bool()) return rules_.Bytes(value.as_bool() ? "true" : "false");
  if (value.is_null()) return rules_.Bytes("null");
  std::vector<ExprId> parts;
  const auto add = [&](ExprId element) {
    if (!parts.empty()) parts.push_back(Comma());
    parts.push_back(element);
  };
  if (value.is_array()) {
    for (const json::value& element : value.as_array()) add(Literal(element));
  } else {
    for (const auto& [key, member] : value.as_object())
      add(Member(rules_.Bytes("\"" + EscapedText(key) + "\""), Literal(member)));
  }
  const char* const open = value.is_array() ? "[" : "{";
  const char* const close = value.is_array() ? "]" : "}";
  if (parts.empty()) return Enclosed(open, std::nullopt, true, close);
  return Enclosed(open, rules_.Sequence(std::move(parts)), false, close);
}

}  // namespace weft::grammar
