#include "api/constraint_source.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <utility>
#include <variant>

#include "grammar/schema.h"

namespace weft::api {
namespace json = boost::json;

namespace {

// As ReadForm takes it.
json::object FormJson(const AnswerForm& form) {
  using Kind = AnswerForm::Kind;
  switch (form.kind) {
    case Kind::kSchema:
      return {{"json", form.schema}};
    case Kind::kRegex:
      return {{"regex", form.text}};
    case Kind::kGrammar:
      return {{"grammar", form.text}};
    case Kind::kChoice:
      return {{"choice", json::value_from(form.choices)}};
    case Kind::kJsonObject:
      break;
  }
  return {{"json_object", true}};
}

json::value ToolChoiceJson(const ToolChoice& choice) {
  if (choice.kind == ToolChoice::Kind::kNamed)
    return json::object{{"type", "function"}, {"function", json::object{{"name", choice.name}}}};
  return choice.kind == ToolChoice::Kind::kRequired ? "required" : "auto";
}

Error Bad(const std::string& what) {
  return Error(ErrorCode::kInvalidData, "The source of a constraint " + what + ".");
}

bool FlagIn(const json::object& object, std::string_view name) {
  const json::value* flag = object.if_contains(name);
  return flag != nullptr && *flag == true;
}

}  // namespace

std::string ConstraintSource::ToJson() const {
  json::object object;
  if (form) {
    object["form"] = FormJson(*form);
  } else {
    object["tools"] = calls.tools;
    object["tool_choice"] = ToolChoiceJson(calls.tool_choice);
    object["one_call"] = calls.ends_with_call;
    object["may_think"] = may_think;
  }
  object["begins_behind"] = begins_behind;
  return json::serialize(object);
}

Result<ConstraintSource> ConstraintSource::FromJson(std::string_view text) {
  json::parse_options options;
  options.max_depth = grammar::kMaxSchemaDepth + 8;  // a schema stands in a tool of a list
  boost::system::error_code error;
  const json::value value = json::parse(text, error, {}, options);
  const json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr) return Bad("is no object of JSON");
  ConstraintSource source;
  const json::value* behind = object->if_contains("begins_behind");
  if (behind == nullptr || !behind->is_string()) return Bad("has no 'begins_behind'");
  source.begins_behind = std::string(behind->as_string());
  if (const json::value* form = object->if_contains("form")) {
    if (!form->is_object()) return Bad("has a form that is no object");
    auto read = ReadForm(form->as_object(), "");
    if (const auto* refused = std::get_if<ApiError>(&read))
      return Bad("lacks: " + refused->message);
    source.form = std::move(std::get<AnswerForm>(read));
    return source;
  }
  const json::value* tools = object->if_contains("tools");
  const json::value* choice = object->if_contains("tool_choice");
  if (tools == nullptr || !tools->is_array() || choice == nullptr)
    return Bad("has neither a form nor tools with a choice");
  const auto read = ReadToolChoice(*choice);
  if (!read) return Bad("has a 'tool_choice' that is none");
  source.calls.tools = tools->as_array();
  source.calls.tool_choice = *read;
  source.calls.ends_with_call = FlagIn(*object, "one_call");
  source.may_think = FlagIn(*object, "may_think");
  return source;
}

}  // namespace weft::api
