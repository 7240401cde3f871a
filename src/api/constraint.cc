#include "api/constraint.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <string_view>
#include <utility>

#include "api/request_fields.h"
#include "grammar/schema.h"

namespace weft::api {
namespace json = boost::json;

namespace {

ApiError RefuseField(const std::string& field, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = field;
  return error;
}

ApiError Unexpected(const std::string& field, const json::value& value,
                    const std::string& expected) {
  return RefuseField(field,
                     "'" + field + "' is " + ShownValue(value) + "; expected " + expected + ".");
}

// A schema, or the text of one.
ApiResult<Constraint> ReadSchema(const json::value& value, const std::string& field) {
  Constraint constraint;
  constraint.kind = Constraint::Kind::kSchema;
  constraint.field = field;
  constraint.schema = value;
  if (value.is_string()) {
    json::parse_options options;
    options.max_depth = grammar::kMaxSchemaDepth;
    boost::system::error_code error;
    constraint.schema = json::parse(value.as_string(), error, {}, options);
    if (error) return Unexpected(field, value, "a schema, or its text in JSON");
  }
  if (!constraint.schema.is_object() && !constraint.schema.is_bool())
    return Unexpected(field, value, "a schema: an object");
  return constraint;
}

ApiResult<Constraint> ReadText(Constraint::Kind kind, const json::value& value,
                               const std::string& field) {
  if (!value.is_string()) return Unexpected(field, value, "a string");
  Constraint constraint;
  constraint.kind = kind;
  constraint.field = field;
  constraint.text = std::string(value.as_string());
  return constraint;
}

ApiResult<Constraint> ReadChoices(const json::value& value, const std::string& field) {
  const bool is_good =
      value.is_array() && !value.as_array().empty() &&
      std::ranges::all_of(value.as_array(), [](const json::value& one) { return one.is_string(); });
  if (!is_good) return Unexpected(field, value, "a list of strings");
  Constraint constraint;
  constraint.kind = Constraint::Kind::kChoice;
  constraint.field = field;
  for (const json::value& choice : value.as_array())
    constraint.choices.emplace_back(std::string_view(choice.as_string()));
  return constraint;
}

}  // namespace

grammar::Compiled Constraint::Compile() const {
  switch (kind) {
    case Kind::kSchema:
      return grammar::CompileSchema(schema);
    case Kind::kRegex:
      return grammar::CompileRegex(text);
    case Kind::kChoice:
      return grammar::CompileChoice(choices);
    case Kind::kGrammar:
      return grammar::CompileGbnf(text);
    default:
      return grammar::CompileAnyObject();
  }
}

ApiResult<Constraint> ReadConstraint(const json::object& object, const std::string& field) {
  constexpr std::string_view kNames[] = {"json", "json_object", "regex", "choice", "grammar"};
  const std::string prefix = field.empty() ? "" : field + ".";
  std::string found;
  for (const auto& [key, value] : object) {
    if (value.is_null()) continue;
    const std::string name(key.data(), key.size());
    if (std::ranges::find(kNames, name) == std::end(kNames))
      return Unexpected(prefix + name, value, "json, json_object, regex, choice or grammar alone");
    if (!found.empty())
      return RefuseField(prefix + name, "'" + prefix + name + "' and '" + prefix + found +
                                            "' are both given; expected one of them.");
    found = name;
  }
  if (found.empty())
    return RefuseField(field, "'" + field +
                                  "' has no constraint; expected one of json, json_object, "
                                  "regex, choice and grammar.");
  const json::value& value = object.at(found);
  const std::string inner = prefix + found;
  if (found == "json") return ReadSchema(value, inner);
  if (found == "regex") return ReadText(Constraint::Kind::kRegex, value, inner);
  if (found == "grammar") return ReadText(Constraint::Kind::kGrammar, value, inner);
  if (found == "choice") return ReadChoices(value, inner);
  if (value != true) return Unexpected(inner, value, "true");
  Constraint any;
  any.field = inner;
  return any;
}

}  // namespace weft::api
