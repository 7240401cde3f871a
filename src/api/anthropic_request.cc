#include "api/anthropic_request.h"

#include <boost/json/object.hpp>
#include <string_view>
#include <utility>

#include "api/anthropic_messages.h"
#include "api/field_reader.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr sampling::Range kTemperatureRange{0, 1};

// What an object of the request says it is; "": it is none, or does not say.
std::string_view TypeOf(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
  return type != nullptr && type->is_string() ? std::string_view(type->as_string()) : "";
}

// Who else than the client would have to run it, or to know it by name alone: "web_search_20250305"
// and the like.
ApiError RefuseTool(const std::string& where, std::string_view type) {
  return RefuseField(where, "'" + where + "' is of type '" + std::string(type.substr(0, 60)) +
                                "', which Anthropic's servers run or its models know by name; "
                                "expected a tool with 'name', 'description' and 'input_schema'.");
}

// Of one tool beside its name, description and schema: what the model would have to follow.
std::optional<ApiError> CheckTool(const json::object& tool, const std::string& where) {
  constexpr RequestField kFields[] = {
      {"name", "A", Handling::kDone, "", ""},
      {"description", "A", Handling::kDone, "", ""},
      {"input_schema", "A", Handling::kDone, "", ""},
      {"type", "A", Handling::kDone, "\"custom\"", ""},
      {"strict", "A", Handling::kDone, "", ""},
      {"cache_control", "A", Handling::kIgnored, "", "prefixes that are held are used"},
      {"eager_input_streaming", "A", Handling::kIgnored, "", "calls are told whole"},
      {"defer_loading", "A", Handling::kRefused, "false", "the model is shown every tool"},
      {"allowed_callers", "A", Handling::kRefused, "[\"direct\"], []", "the model calls tools"},
      {"input_examples", "A", Handling::kRefused, "[]", "say them in 'description'"},
  };
  return RefuseFields(tool, {kFields, "docs/anthropic.md", where});
}

void ReadTools(FieldReader& fields, ChatRequest* request) {
  const json::value* tools = fields.Find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.Fail("tools", *tools, "an array of tools");
  for (size_t i = 0; i < tools->as_array().size(); ++i) {
    const json::value& tool = tools->as_array()[i];
    const std::string where = "tools[" + std::to_string(i) + "]";
    const std::string_view type = TypeOf(tool);
    if (!type.empty() && type != "custom") return fields.Fail(RefuseTool(where, type));
    const json::object* object = tool.if_object();
    const json::value* name = object != nullptr ? object->if_contains("name") : nullptr;
    const json::value* schema = object != nullptr ? object->if_contains("input_schema") : nullptr;
    if (name == nullptr || !name->is_string() || schema == nullptr || !schema->is_object())
      return fields.Fail(where, tool, "an object with 'name', 'description' and 'input_schema'");
    if (const auto error = CheckTool(*object, where + ".")) return fields.Fail(*error);
    json::object function = {{"name", *name}, {"parameters", *schema}};
    for (const char* field : {"description", "strict"}) {
      const json::value* given = object->if_contains(field);
      if (given != nullptr && !given->is_null()) function[field] = *given;
    }
    request->tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
}

// Without tools there is nothing to choose.
void ReadChoice(FieldReader& fields, ChatRequest* request) {
  const json::value* choice = fields.Find("tool_choice");
  const std::string_view type = choice != nullptr ? TypeOf(*choice) : "auto";
  if (type != "auto" && type != "any" && type != "tool" && type != "none")
    return fields.Fail("tool_choice", *choice, "an object with 'type' auto, any, tool or none");
  if (type == "none") request->tools.clear();
  request->parses_calls = !request->tools.empty();
  if (choice == nullptr) return;
  const json::object& object = choice->as_object();
  FieldReader inner(object, "tool_choice.");
  request->ends_with_call = inner.Bool("disable_parallel_tool_use", false);
  if (type == "any") request->tool_choice.kind = ToolChoice::Kind::kRequired;
  if (type == "tool") {
    const std::string_view name = NameOf(object);
    if (name.empty()) inner.FailMissing("name", "the name of a tool");
    request->tool_choice = {ToolChoice::Kind::kNamed, std::string(name)};
  }
  if (inner.error()) return fields.Fail(*inner.error());
  if (const auto error = CheckChoice(request->tool_choice, request->tools, ShownValue(*choice)))
    fields.Fail(*error);
}

// Whether to think is told to templates that take it; those of models that always think do not.
// There thoughts that are not wanted end where they begin.
void ReadThinking(FieldReader& fields, ChatRequest* request) {
  const json::value* thinking = fields.Find("thinking");
  if (thinking == nullptr) return;
  const std::string_view type = TypeOf(*thinking);
  if (type != "enabled" && type != "disabled" && type != "adaptive")
    return fields.Fail("thinking", *thinking,
                       "an object with 'type' enabled, disabled or adaptive");
  FieldReader inner(thinking->as_object(), "thinking.");
  if (type == "disabled") request->max_thinking_tokens = 0;
  if (type == "enabled") {
    const auto budget = inner.Integer("budget_tokens", 1, kMostTokens);
    if (!budget && !inner.error())
      inner.FailMissing("budget_tokens", "the most tokens that thoughts may have");
    if (budget) request->max_thinking_tokens = static_cast<uint32_t>(*budget);
  }
  if (const json::value* display = inner.Find("display")) {
    request->shows_thinking = *display == "summarized";
    if (*display != "summarized" && *display != "omitted")
      inner.Fail("display", *display, "summarized or omitted");
  }
  if (inner.error()) return fields.Fail(*inner.error());
  if (type != "adaptive") request->template_kwargs["enable_thinking"] = type == "enabled";
}

// {"type": "json_schema", "schema": {...}}
void ReadFormat(FieldReader& fields, const std::string& name, const json::value& format,
                ChatRequest* request) {
  const json::object* object = format.if_object();
  const json::value* schema = object != nullptr ? object->if_contains("schema") : nullptr;
  if (TypeOf(format) != "json_schema" || schema == nullptr || !schema->is_object())
    return fields.Fail(name, format, "{\"type\": \"json_schema\", \"schema\": {...}}");
  AnswerForm form;
  form.kind = AnswerForm::Kind::kSchema;
  form.schema = *schema;
  form.field = name + ".schema";
  request->form = std::move(form);
}

// How much to think is advice there: it is told to templates that take it.
void ReadOutput(FieldReader& fields, ChatRequest* request) {
  if (const json::value* format = fields.Find("output_format"))
    ReadFormat(fields, "output_format", *format, request);
  const json::value* config = fields.Find("output_config");
  if (config == nullptr) return;
  constexpr RequestField kFields[] = {
      {"format", "A", Handling::kDone, "", ""},
      {"effort", "A", Handling::kDone, R"("low", "medium", "high", "xhigh", "max")", ""},
      {"task_budget", "A", Handling::kRefused, "", "use 'max_tokens'"},
  };
  if (!config->is_object()) return fields.Fail("output_config", *config, "an object");
  const json::object& object = config->as_object();
  if (const auto error = RefuseFields(object, {kFields, "docs/anthropic.md", "output_config."}))
    return fields.Fail(*error);
  FieldReader inner(object);
  if (const json::value* effort = inner.Find("effort"))
    request->template_kwargs["reasoning_effort"] = *effort;
  if (const json::value* format = inner.Find("format"))
    ReadFormat(fields, "output_config.format", *format, request);
}

// Which thoughts of earlier turns a model sees, its template says; anything else stays.
void CheckContextManagement(FieldReader& fields) {
  const json::value* management = fields.Find("context_management");
  if (management == nullptr) return;
  const std::string expected =
      "{\"edits\": [...]} with edits of type clear_thinking_20251015 alone";
  const json::object* object = management->if_object();
  const json::value* edits = object != nullptr ? object->if_contains("edits") : nullptr;
  if (object == nullptr || object->size() > (edits != nullptr ? 1 : 0) ||
      (edits != nullptr && !edits->is_array()))
    return fields.Fail("context_management", *management, expected);
  if (edits == nullptr) return;
  for (const json::value& edit : edits->as_array())
    if (TypeOf(edit) != "clear_thinking_20251015")
      return fields.Fail("context_management.edits", edit, expected);
}

void ReadSampling(FieldReader& fields, sampling::Parameters* sampling) {
  if (const auto x = fields.Number("temperature", kTemperatureRange))
    sampling->temperature = static_cast<float>(*x);
  if (const auto x = fields.Number("top_p", sampling::kTopPRange))
    sampling->top_p = static_cast<float>(*x);
  if (const auto x = fields.Integer("top_k", 0, sampling::kMaxTopK))
    sampling->top_k = static_cast<int32_t>(*x);
}

}  // namespace

ApiResult<ChatRequest> ParseAnthropicRequest(ByteSpan body, const sampling::Parameters& defaults,
                                             bool counts_only) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  FieldReader fields(object);
  ChatRequest request;
  request.sampling = defaults;
  request.model = fields.Model();
  if (fields.error()) return *fields.error();
  if (auto error = RefuseFields(object, AnthropicFields())) {
    if (error->param == "thread") error->code = kNoThreads;
    return *error;
  }
  if (auto error =
          ReadAnthropicMessages(fields.Find("system"), fields.Find("messages"), &request.messages))
    return *error;
  const auto max_tokens = fields.Integer("max_tokens", 1, kMostTokens);
  if (max_tokens) request.max_tokens = static_cast<uint32_t>(*max_tokens);
  if (!max_tokens && !counts_only)
    fields.FailMissing("max_tokens", "the most tokens that the answer may have");
  request.stop = fields.Stop("stop_sequences");
  request.stream = fields.Bool("stream", false);
  ReadSampling(fields, &request.sampling);
  ReadTools(fields, &request);
  if (fields.error()) return *fields.error();
  ReadChoice(fields, &request);
  ReadThinking(fields, &request);
  ReadOutput(fields, &request);
  CheckContextManagement(fields);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace weft::api
