// Objects of JSON Schema: named properties in their order, then others.
//
// Which of several optional properties is the first one decides where commas stand:
//
//   members ::= a rest1 | b rest2          with a and b optional
//   rest1   ::= ("," b)? rest2
//   rest2   ::= ("," other)*
#include <algorithm>
#include <boost/json/array.hpp>
#include <string>
#include <utility>

#include "base/sentence.h"
#include "grammar/schema.h"
#include "grammar/schema_compiler.h"
#include "grammar/utf8.h"

namespace weft::grammar {
namespace json = boost::json;

Result<ExprId> SchemaCompiler::CompileObject(const Object& schema, const Pointer& at) {
  if (!schema.contains("properties") && !schema.contains("required") &&
      !schema.contains("additionalProperties"))
    return json_.Object();
  ASSIGN_OR_RETURN(const Properties properties, ReadProperties(schema, at));
  if (properties.never) return rules_.Never();
  if (properties.named.empty() && !properties.other)
    return json_.Enclosed("{", std::nullopt, true, "}");
  const bool may_be_empty =
      std::ranges::none_of(properties.named, [](const Property& one) { return one.is_required; });
  return json_.Enclosed("{", AddMembers(properties), may_be_empty, "}");
}

Result<SchemaCompiler::Properties> SchemaCompiler::ReadProperties(const Object& schema,
                                                                  const Pointer& at) {
  const json::value* given = schema.if_contains("properties");
  const json::value* others = schema.if_contains("additionalProperties");
  const json::value* listed = schema.if_contains("required");
  Object named = given != nullptr ? given->as_object() : Object();
  std::vector<std::string> required;
  if (listed != nullptr) {
    for (const json::value& name : listed->as_array())
      required.emplace_back(std::string_view(name.as_string()));
  }
  // One that is required and not described is as the others are.
  for (const std::string& name : required)
    if (!named.contains(name)) named[name] = others != nullptr ? *others : json::value(true);
  Properties out;
  std::vector<std::string> names;
  for (const auto& [key, value] : named) {
    const std::string name(key.data(), key.size());
    if (name.size() > kMaxKeyBytes)
      return Error(ErrorCode::kLimitExceeded,
                   Sentence("'properties' at ", at.text(), " has a name of ", name.size(),
                            " bytes, the limit is ", kMaxKeyBytes, "."));
    names.push_back(name);
    const bool is_required = std::ranges::find(required, name) != required.end();
    if (value == false) {
      out.never = out.never || is_required;
      continue;
    }
    ASSIGN_OR_RETURN(const ExprId member, Compile(value, at / "properties" / name));
    const ExprId key_text = rules_.Bytes("\"" + EscapedText(name) + "\"");
    out.named.push_back({name, json_.Member(key_text, member), is_required});
  }
  if (others != nullptr && *others != false) {
    ASSIGN_OR_RETURN(const ExprId value, Compile(*others, at / "additionalProperties"));
    const ExprId key = names.empty() ? json_.String() : json_.OtherKey(names);
    out.other = rules_.Share("", json_.Member(key, value));
  }
  return out;
}

ExprId SchemaCompiler::AddMembers(const Properties& properties) {
  const std::vector<Property>& named = properties.named;
  const auto behind = [&](size_t i) {  // what may follow property i - 1, but for what follows i
    const ExprId member = rules_.Sequence({json_.Comma(), named[i].member});
    return named[i].is_required ? member : rules_.Optional(member);
  };
  const auto first_required = static_cast<size_t>(
      std::ranges::find_if(named, [](const Property& one) { return one.is_required; }) -
      named.begin());
  // Behind those that may be the first one each has a rule, since it is gone on to from several.
  const size_t last_first = std::min(first_required, named.size() - (named.empty() ? 0 : 1));
  std::vector<ExprId> tail;
  for (size_t i = last_first + 1; i < named.size(); ++i) tail.push_back(behind(i));
  std::optional<ExprId> more_others;
  if (properties.other) {
    more_others = rules_.Repeat(rules_.Sequence({json_.Comma(), *properties.other}), 0, kUnbounded);
    tail.push_back(*more_others);
  }
  ExprId rest = rules_.Sequence(tail.empty() ? std::vector{rules_.Empty()} : std::move(tail));
  if (last_first > 0) rest = rules_.Share("", rest);
  std::vector<ExprId> ways;
  for (size_t i = named.empty() ? 0 : last_first + 1; i-- > 0;) {
    ways.push_back(rules_.Sequence({named[i].member, rest}));
    if (i > 0) rest = rules_.Share("", rules_.Sequence({behind(i), rest}));
  }
  if (properties.other && first_required == named.size())
    ways.push_back(rules_.Sequence({*properties.other, *more_others}));
  return rules_.Choice(std::move(ways));
}

}  // namespace weft::grammar
