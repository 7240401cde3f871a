#include "api/responses_request.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/field_reader.h"
#include "api/responses_items.h"
#include "api/sampling_fields.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr int64_t kMostTopLogprobs = 20;

// 0.6 of a float, not 0.6000000238: the number that has the fewest digits of all that it may be.
double AsDecimal(float value) {
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double decimal = value;
  std::from_chars(digits, end, decimal);
  return decimal;
}

std::string TextAt(FieldReader& fields, const char* name) {
  const json::value* value = fields.Find(name);
  if (value == nullptr) return "";
  if (value->is_string()) return std::string(value->as_string());
  fields.Fail(name, *value, "a text");
  return "";
}

// {"type": "function", "name", "parameters"} as chats have it.
void ReadTools(FieldReader& fields, ResponsesRequest* request) {
  request->chat.ends_with_call = !fields.Bool("parallel_tool_calls", true);
  const json::value* tools = fields.Find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.Fail("tools", *tools, "an array of tools");
  for (size_t i = 0; i < tools->as_array().size(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    const json::value& value = tools->as_array()[i];
    const json::object* tool = value.if_object();
    const json::value* type = tool != nullptr ? tool->if_contains("type") : nullptr;
    const json::value* name = tool != nullptr ? tool->if_contains("name") : nullptr;
    if (type != nullptr && type->is_string() && *type != "function")
      return fields.Fail(RefuseField(
          where + ".type", "'" + where + ".type' is " + ShownValue(*type) +
                               "; weft hosts no tools: expected \"function\", which the client "
                               "calls."));
    if (type == nullptr || !type->is_string() || name == nullptr || !name->is_string())
      return fields.Fail(where, value,
                         "an object like {\"type\": \"function\", \"name\": ..., \"parameters\": "
                         "{...}}");
    json::object function = {{"name", *name}};
    for (const char* field : {"description", "parameters", "strict"}) {
      const json::value* given = tool->if_contains(field);
      if (given != nullptr && !given->is_null()) function[field] = *given;
    }
    request->chat.tools.push_back(
        json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  request->chat.parses_calls = !request->chat.tools.empty();
}

void ReadChoice(FieldReader& fields, ChatRequest* chat) {
  const json::value* choice = fields.Find("tool_choice");
  if (choice == nullptr) return;
  if (*choice == "none") {
    chat->tools.clear();
    chat->parses_calls = false;
    return;
  }
  auto read = ReadToolChoice(*choice);
  if (!read)
    return fields.Fail("tool_choice", *choice,
                       "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"name\": "
                       "...}");
  if (const auto error = CheckChoice(*read, chat->tools, ShownValue(*choice)))
    return fields.Fail(*error);
  chat->tool_choice = std::move(*read);
}

// text: {"format": {"type": "json_schema", "schema": ...}, "verbosity": "medium"}
void ReadText(FieldReader& fields, ResponsesRequest* request) {
  const json::value* text = fields.Find("text");
  if (text == nullptr) return;
  if (!text->is_object()) return fields.Fail("text", *text, "an object with 'format'");
  for (const auto& [key, value] : text->as_object()) {
    if (value.is_null() || key == "format") continue;
    if (key == "verbosity" && value == "medium") continue;
    return fields.Fail(
        "text." + std::string(key), value,
        key == "verbosity" ? "\"medium\": say it in a message" : "'format' alone in 'text'");
  }
  const json::value* format = text->as_object().if_contains("format");
  if (format == nullptr || format->is_null()) return;
  const json::object* object = format->if_object();
  const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
  if (type != nullptr && *type == "text") return;
  json::object form;
  if (type != nullptr && *type == "json_object") form["json_object"] = true;
  const json::value* schema = object != nullptr ? object->if_contains("schema") : nullptr;
  if (type != nullptr && *type == "json_schema" && schema != nullptr) form["json"] = *schema;
  if (form.empty())
    return fields.Fail("text.format", *format,
                       "a 'type' of \"text\", \"json_object\" or \"json_schema\" with 'schema'");
  auto read = ReadForm(form, "text.format");
  if (auto* error = std::get_if<ApiError>(&read)) return fields.Fail(*error);
  request->chat.form = std::move(std::get<AnswerForm>(read));
  request->chat.form->field = "text.format";
}

// reasoning: {"effort": "low", "summary": "auto"}
void ReadReasoning(FieldReader& fields, ResponsesRequest* request) {
  if (fields.Find("enable_thinking") != nullptr)
    request->chat.enable_thinking = fields.Bool("enable_thinking", true);
  if (const auto count = fields.Integer("max_thinking_tokens", 0, kMostTokens))
    request->chat.max_thinking_tokens = static_cast<uint32_t>(*count);
  const json::value* reasoning = fields.Find("reasoning");
  if (reasoning == nullptr) return;
  if (!reasoning->is_object())
    return fields.Fail("reasoning", *reasoning, "an object with 'effort' and 'summary'");
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};
  constexpr std::string_view kSummaries[] = {"auto", "concise", "detailed"};
  for (const auto& [key, value] : reasoning->as_object()) {
    if (value.is_null()) continue;
    const std::string_view text = value.is_string() ? std::string_view(value.as_string()) : "";
    if (key == "effort") {
      if (std::ranges::find(kEfforts, text) == std::end(kEfforts))
        return fields.Fail("reasoning.effort", value,
                           "none, minimal, low, medium, high, xhigh or max");
      request->chat.reasoning_effort = std::string(text);
    } else if (key == "summary" || key == "generate_summary") {
      if (std::ranges::find(kSummaries, text) == std::end(kSummaries))
        return fields.Fail("reasoning." + std::string(key), value, "auto, concise or detailed");
      request->summarises = true;
    } else {
      return fields.Fail("reasoning." + std::string(key), value, "'effort' and 'summary' alone");
    }
  }
}

// What belongs to hosted tools, or is there in any case, changes nothing.
void ReadInclude(FieldReader& fields, ResponsesRequest* request) {
  if (const auto top = fields.Integer("top_logprobs", 0, kMostTopLogprobs)) {
    request->chat.top_logprobs = static_cast<uint32_t>(*top);
    request->chat.logprobs = *top > 0;
  }
  const json::value* include = fields.Find("include");
  if (include == nullptr) return;
  constexpr std::string_view kKnown[] = {"message.output_text.logprobs",
                                         "reasoning.encrypted_content",
                                         "file_search_call.results",
                                         "web_search_call.results",
                                         "web_search_call.action.sources",
                                         "message.input_image.image_url",
                                         "computer_call_output.output.image_url",
                                         "code_interpreter_call.outputs"};
  const auto is_known = [&](const json::value& value) {
    return value.is_string() &&
           std::ranges::find(kKnown, std::string_view(value.as_string())) != std::end(kKnown);
  };
  if (!include->is_array() || !std::ranges::all_of(include->as_array(), is_known))
    return fields.Fail("include", *include,
                       "an array of names such as \"" + std::string(kKnown[0]) + "\"");
  for (const json::value& each : include->as_array())
    if (each.as_string() == kKnown[0]) request->chat.logprobs = true;
}

void ReadMetadata(FieldReader& fields) {
  const json::value* metadata = fields.Find("metadata");
  if (metadata == nullptr) return;
  const bool is_good = metadata->is_object() && metadata->as_object().size() <= 16 &&
                       std::ranges::all_of(metadata->as_object(), [](const auto& pair) {
                         return pair.value().is_string();
                       });
  if (!is_good) fields.Fail("metadata", *metadata, "an object of at most 16 texts");
}

// What the response repeats, with what is meant where nothing is said.
json::object ToldOf(const json::object& body, const ChatRequest& chat) {
  const auto given = [&body](const char* name, const json::value& if_absent) {
    const json::value* value = body.if_contains(name);
    return value == nullptr || value->is_null() ? if_absent : *value;
  };
  json::object text = {{"format", {{"type", "text"}}}};
  if (const json::value* said = body.if_contains("text"); said != nullptr && said->is_object())
    for (const auto& [key, value] : said->as_object())
      if (!value.is_null()) text[key] = value;
  return {
      {"background", false},
      {"instructions", given("instructions", nullptr)},
      {"max_output_tokens", given("max_output_tokens", nullptr)},
      {"max_tool_calls", given("max_tool_calls", nullptr)},
      {"parallel_tool_calls", !chat.ends_with_call},
      {"previous_response_id", given("previous_response_id", nullptr)},
      {"prompt_cache_key", given("prompt_cache_key", nullptr)},
      {"reasoning", given("reasoning", json::object{{"effort", nullptr}, {"summary", nullptr}})},
      {"safety_identifier", given("safety_identifier", nullptr)},
      {"service_tier", "default"},
      {"store", given("store", true)},
      {"temperature", AsDecimal(chat.sampling.temperature)},
      {"text", std::move(text)},
      {"tool_choice", given("tool_choice", "auto")},
      {"tools", given("tools", json::array())},
      {"top_logprobs", chat.top_logprobs},
      {"top_p", AsDecimal(chat.sampling.top_p)},
      {"truncation", "disabled"},
      {"user", given("user", nullptr)},
      {"metadata", given("metadata", json::object())}};
}

void ReadChat(FieldReader& fields, ChatRequest* chat) {
  chat->model = fields.Model();
  chat->stop = fields.Stop("stop");
  ReadSampling(fields, &chat->sampling);
  if (const auto count = fields.Integer("max_output_tokens", 1, kMostTokens))
    chat->max_tokens = static_cast<uint32_t>(*count);
  chat->stream = fields.Bool("stream", false);
  chat->cache_salt = ReadCacheSalt(fields);
  chat->cache_key = ReadCacheKey(fields);
  if (const json::value* kwargs = fields.Find("chat_template_kwargs")) {
    if (kwargs->is_object()) {
      chat->template_kwargs = kwargs->as_object();
    } else {
      fields.Fail("chat_template_kwargs", *kwargs, "an object");
    }
  }
}

}  // namespace

ApiResult<ResponsesRequest> ParseResponsesRequest(ByteSpan body,
                                                  const sampling::Parameters& defaults) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  if (auto error = RefuseFields(object, ResponsesFields())) return *error;
  FieldReader fields(object);
  ResponsesRequest request;
  request.chat.sampling = defaults;
  ReadChat(fields, &request.chat);
  request.instructions = TextAt(fields, "instructions");
  request.previous = TextAt(fields, "previous_response_id");
  request.stores = fields.Bool("store", true);
  ReadTools(fields, &request);
  ReadChoice(fields, &request.chat);
  ReadText(fields, &request);
  ReadReasoning(fields, &request);
  ReadInclude(fields, &request);
  ReadMetadata(fields);
  if (fields.error()) return *fields.error();
  if (auto error = ReadLogitBias(fields.Find("logit_bias"), &request.chat.sampling)) return *error;
  const json::value* input = fields.Find("input");
  if (input == nullptr)
    return RefuseField("input", "'input' is missing; expected a text, or an array of items.");
  auto items = ReadItems(*input);
  if (auto* error = std::get_if<ApiError>(&items)) return std::move(*error);
  request.items = std::move(std::get<json::array>(items));
  if (request.items.empty() && request.previous.empty())
    return RefuseField("input", "'input' is []; expected at least one item.");
  request.told = ToldOf(object, request.chat);
  return request;
}

}  // namespace weft::api
