#include "api/answer_form.h"

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

ApiError Unexpected(const std::string& field, const json::value& value,
                    const std::string& expected) {
  return RefuseField(field,
                     "'" + field + "' is " + ShownValue(value) + "; expected " + expected + ".");
}

bool IsSet(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && !value->is_null();
}

// A schema, or the text of one.
ApiResult<AnswerForm> ReadSchema(const json::value& value, const std::string& field) {
  AnswerForm form;
  form.kind = AnswerForm::Kind::kSchema;
  form.field = field;
  form.schema = value;
  if (value.is_string()) {
    json::parse_options options;
    options.max_depth = grammar::kMaxSchemaDepth;
    boost::system::error_code error;
    form.schema = json::parse(value.as_string(), error, {}, options);
    if (error) return Unexpected(field, value, "a schema, or its text in JSON");
  }
  if (!form.schema.is_object() && !form.schema.is_bool())
    return Unexpected(field, value, "a schema: an object");
  return form;
}

ApiResult<AnswerForm> ReadText(AnswerForm::Kind kind, const json::value& value,
                               const std::string& field) {
  if (!value.is_string()) return Unexpected(field, value, "a string");
  AnswerForm form;
  form.kind = kind;
  form.field = field;
  form.text = std::string(value.as_string());
  return form;
}

ApiResult<AnswerForm> ReadChoices(const json::value& value, const std::string& field) {
  const bool is_good =
      value.is_array() && !value.as_array().empty() &&
      std::ranges::all_of(value.as_array(), [](const json::value& one) { return one.is_string(); });
  if (!is_good) return Unexpected(field, value, "a list of strings");
  AnswerForm form;
  form.kind = AnswerForm::Kind::kChoice;
  form.field = field;
  for (const json::value& choice : value.as_array())
    form.choices.emplace_back(std::string_view(choice.as_string()));
  return form;
}

// OpenAI's: {"type": "json_schema", "json_schema": {"name", "strict", "schema", "description"}}.
ApiResult<std::optional<AnswerForm>> ReadResponseFormat(const json::value& format) {
  const std::string field = "response_format";
  const json::object* object = format.if_object();
  const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
  const std::string_view name =
      type != nullptr && type->is_string() ? std::string_view(type->as_string()) : "";
  if (name != "text" && name != "json_object" && name != "json_schema")
    return Unexpected(field, format,
                      "{\"type\": \"text\"}, {\"type\": \"json_object\"} or {\"type\": "
                      "\"json_schema\", \"json_schema\": {\"name\", \"schema\"}}");
  for (const auto& [key, value] : *object) {
    if (key == "type" || value.is_null() || (key == "json_schema" && name == "json_schema"))
      continue;
    const std::string inner = field + "." + std::string(key);
    return Unexpected(inner, value, "no such field beside \"type\": \"" + std::string(name) + "\"");
  }
  if (name == "text") return std::nullopt;
  if (name == "json_object") {
    AnswerForm any;
    any.field = field;
    return std::optional(std::move(any));
  }
  const std::string inner = field + ".json_schema";
  const json::value* described = object->if_contains("json_schema");
  if (described == nullptr || !described->is_object() || !IsSet(described->as_object(), "schema"))
    return Unexpected(inner, described != nullptr ? *described : json::value(nullptr),
                      "an object with 'name' and 'schema'");
  for (const auto& [key, value] : described->as_object()) {
    if (key == "schema" || key == "description" || key == "name" || key == "strict") continue;
    return Unexpected(inner + "." + std::string(key), value,
                      "'name', 'description', 'schema' and 'strict' alone");
  }
  auto schema = ReadSchema(described->as_object().at("schema"), inner + ".schema");
  if (auto* error = std::get_if<ApiError>(&schema)) return std::move(*error);
  return std::optional(std::get<AnswerForm>(std::move(schema)));
}

}  // namespace

grammar::Compiled AnswerForm::Compile() const {
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

ApiResult<AnswerForm> ReadForm(const json::object& object, const std::string& field) {
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
                                  "' names no form; expected one of json, json_object, "
                                  "regex, choice and grammar.");
  const json::value& value = object.at(found);
  const std::string inner = prefix + found;
  if (found == "json") return ReadSchema(value, inner);
  if (found == "regex") return ReadText(AnswerForm::Kind::kRegex, value, inner);
  if (found == "grammar") return ReadText(AnswerForm::Kind::kGrammar, value, inner);
  if (found == "choice") return ReadChoices(value, inner);
  if (value != true) return Unexpected(inner, value, "true");
  AnswerForm any;
  any.field = inner;
  return any;
}

ApiResult<std::optional<AnswerForm>> ReadRequestedForm(const json::object& request) {
  std::optional<AnswerForm> found;
  const auto add = [&found](AnswerForm more) -> std::optional<ApiError> {
    if (found)
      return RefuseField(more.field, "'" + more.field + "' and '" + found->field +
                                         "' are both given; an answer has one form.");
    found = std::move(more);
    return std::nullopt;
  };
  if (IsSet(request, "response_format")) {
    auto read = ReadResponseFormat(request.at("response_format"));
    if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
    found = std::get<std::optional<AnswerForm>>(std::move(read));
  }
  if (IsSet(request, "structured_outputs")) {
    const json::value& value = request.at("structured_outputs");
    if (!value.is_object())
      return Unexpected("structured_outputs", value,
                        "an object with one of json, json_object, regex, choice and grammar");
    auto read = ReadForm(value.as_object(), "structured_outputs");
    if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
    if (auto error = add(std::get<AnswerForm>(std::move(read)))) return *error;
  }
  if (IsSet(request, "grammar") && request.at("grammar") != "") {
    auto read = ReadText(AnswerForm::Kind::kGrammar, request.at("grammar"), "grammar");
    if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
    if (auto error = add(std::get<AnswerForm>(std::move(read)))) return *error;
  }
  return found;
}

}  // namespace weft::api
