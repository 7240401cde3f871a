#include "api/call_arguments.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <string_view>
#include <utility>

#include "base/sentence.h"
#include "chat/tools.h"
#include "grammar/json_rules.h"
#include "grammar/schema.h"
#include "grammar/text_without.h"

namespace weft::api {
namespace json = boost::json;
using grammar::ExprId;

namespace {

constexpr std::string_view kWhere = "#/properties/";

Error CannotFollow(std::string_view keyword, const std::string& pointer) {
  return Error(ErrorCode::kUnsupported,
               Sentence("'", keyword, "' at ", pointer,
                        " cannot be followed in this model's form of calls, which writes arguments "
                        "as plain text."));
}

// References of a property are to places of the whole schema: what they may name goes with it.
json::value WithDefinitions(const json::value& schema, const json::object& root) {
  const json::object* object = schema.if_object();
  if (object == nullptr) return schema;
  json::object whole = *object;
  for (const char* name : {"$defs", "definitions"})
    if (const json::value* definitions = root.if_contains(name)) whole.emplace(name, *definitions);
  return whole;
}

bool IsRequired(const json::object& schema, std::string_view name) {
  const json::value* required = schema.if_contains("required");
  const json::array* names = required == nullptr ? nullptr : required->if_array();
  return names != nullptr && std::ranges::any_of(*names, [&](const json::value& each) {
           return each.is_string() && each.as_string() == name;
         });
}

// Whether nothing says what type it has.
bool IsUntyped(const json::value& schema) {
  const json::object* object = schema.if_object();
  return object == nullptr || std::ranges::none_of(*object, [](const auto& member) {
           const std::string_view key = member.key();
           return key == "type" || key == "enum" || key == "const" || key == "anyOf" ||
                  key == "oneOf" || key == "allOf" || key == "$ref";
         });
}

}  // namespace

Result<ExprId> CallArguments::Of(const json::value* schema) {
  const json::value none = {
      {"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
  const json::value& followed = schema == nullptr || schema->is_null() ? none : *schema;
  if (!spelling_.arguments) {
    if (!chat::Allows(&followed, "object"))
      return Error(ErrorCode::kUnsupported, "'type' at # is no object; arguments are one.");
    ASSIGN_OR_RETURN(const grammar::RuleId rule, grammar::AddSchema(followed, rules_));
    return rules_.Sequence({rules_.Bytes(spelling_.name_end), rules_.Call(rule)});
  }
  if (!followed.is_object())
    return Error(ErrorCode::kUnsupported, "The schema is no object; arguments are one.");
  return Spelled(followed.as_object());
}

Result<ExprId> CallArguments::Spelled(const json::object& schema) {
  for (const char* keyword : {"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "if", "not"})
    if (schema.contains(keyword)) return CannotFollow(keyword, "#");
  const json::value* properties = schema.if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return Any();
  std::vector<Argument> arguments;
  for (const auto& [key, property] : properties->as_object()) {
    const std::string name(key);
    ASSIGN_OR_RETURN(const ExprId value, Value(property, schema, name));
    arguments.push_back({name, value, IsRequired(schema, name)});
  }
  return Sequence(arguments);
}

// What may follow behind a value is one rule for each argument that may come next:
//
//   behind the first of three   next "b" value, behind the second | behind the second, if "b" may
//                               be missing
ExprId CallArguments::Sequence(const std::vector<Argument>& arguments) const {
  const chat::ArgumentSpelling& spelled = *spelling_.arguments;
  const auto member = [&](const std::string& before, const Argument& argument) {
    return rules_.Sequence({rules_.Bytes(before + argument.name), argument.value});
  };
  ExprId behind = rules_.Empty();
  ExprId whole = rules_.Bytes(spelled.none);
  for (size_t i = arguments.size(); i > 0; --i) {
    const Argument& argument = arguments[i - 1];
    const ExprId first = rules_.Sequence({member(spelled.first_key, argument), behind});
    const ExprId later = rules_.Sequence({member(spelled.next, argument), behind});
    whole = argument.is_required ? first : rules_.Choice({first, whole});
    behind = rules_.Share("The arguments behind " + argument.name,
                          argument.is_required ? later : rules_.Choice({later, behind}));
  }
  return whole;
}

ExprId CallArguments::Other(ExprId value) const {
  const chat::ArgumentSpelling& spelled = *spelling_.arguments;
  return rules_.Sequence(
      {rules_.Bytes(spelled.other_begin), value, rules_.Bytes(spelled.other_end)});
}

ExprId CallArguments::AnyString() {
  const chat::ArgumentSpelling& spelled = *spelling_.arguments;
  if (!any_string_) {
    any_string_ = rules_.Share("A text up to what ends it",
                               rules_.Sequence({rules_.Bytes(spelled.string_begin),
                                                grammar::TextUpTo(spelled.string_end, rules_)}));
  }
  return *any_string_;
}

Result<ExprId> CallArguments::Value(const json::value& schema, const json::object& root,
                                    const std::string& name) {
  const bool has_json_strings = spelling_.arguments->has_json_strings;
  if (!has_json_strings && IsUntyped(schema)) return AnyValue();
  if (!has_json_strings && chat::Allows(&schema, "string")) return StringValue(schema, name);
  ASSIGN_OR_RETURN(const grammar::RuleId rule,
                   grammar::AddSchema(WithDefinitions(schema, root), rules_));
  return Other(rules_.Call(rule));
}

Result<ExprId> CallArguments::StringValue(const json::value& schema, const std::string& name) {
  const json::object& object = schema.as_object();
  for (const char* keyword : {"pattern", "format", "minLength", "maxLength"})
    if (object.contains(keyword)) return CannotFollow(keyword, std::string(kWhere) + name);
  const json::value* only = object.if_contains("const");
  const json::value* values = object.if_contains("enum");
  const json::array listed = only != nullptr                           ? json::array{*only}
                             : values != nullptr && values->is_array() ? values->as_array()
                                                                       : json::array();
  if (listed.empty()) return AnyString();
  const chat::ArgumentSpelling& spelled = *spelling_.arguments;
  // A closing tag on a line of its own has the line's end in front.
  const size_t tag = spelled.other_end.find(spelled.string_end);
  const std::string end = tag == std::string::npos ? spelled.string_end : spelled.other_end;
  std::vector<ExprId> ways;
  for (const json::value& each : listed) {
    if (!each.is_string() || each.as_string().find(spelled.string_end) != std::string::npos)
      return CannotFollow("enum", std::string(kWhere) + name);
    ways.push_back(rules_.Bytes(each.as_string()));
  }
  return rules_.Sequence(
      {rules_.Bytes(spelled.string_begin), rules_.Choice(std::move(ways)), rules_.Bytes(end)});
}

ExprId CallArguments::AnyValue() {
  if (!any_value_) {
    const ExprId other = Other(grammar::JsonRules(rules_).Value());
    const bool is_all = spelling_.arguments->has_json_strings;
    any_value_ = rules_.Share("Any value", is_all ? other : rules_.Choice({AnyString(), other}));
  }
  return *any_value_;
}

ExprId CallArguments::Any() {
  if (!spelling_.arguments)
    return rules_.Sequence(
        {rules_.Bytes(spelling_.name_end), rules_.Call(grammar::AddAnyObject(rules_))});
  const chat::ArgumentSpelling& spelled = *spelling_.arguments;
  const ExprId key = rules_.Repeat(
      rules_.Set({{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}, {'-', '-'}, {'.', '.'}}), 1, 64);
  const ExprId member = rules_.Share("An argument", rules_.Sequence({key, AnyValue()}));
  const ExprId others =
      rules_.Repeat(rules_.Sequence({rules_.Bytes(spelled.next), member}), 0, grammar::kUnbounded);
  return rules_.Choice({rules_.Bytes(spelled.none),
                        rules_.Sequence({rules_.Bytes(spelled.first_key), member, others})});
}

}  // namespace weft::api
