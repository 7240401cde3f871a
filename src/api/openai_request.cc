#include "api/openai_request.h"

#include <algorithm>

#include "api/chat_messages.h"
#include "api/field_reader.h"
#include "api/request_fields.h"
#include "api/sampling_fields.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr int64_t kMostTopLogprobs = 20;
constexpr int64_t kMostChoices = 8;
constexpr size_t kMostNameBytes = 64;

// A message's content: a string, or an array of {"type": "text", "text": ...} parts, joined.
ApiResult<json::value> ContentText(const json::value* content, const std::string& where) {
  if (content == nullptr || content->is_null()) return json::value(nullptr);
  if (content->is_string()) return *content;
  if (!content->is_array()) {
    return RefuseField(where, "'" + where + "' is " + ShownValue(*content) +
                                  "; expected a string or an array of text parts.");
  }
  std::string text;
  for (const json::value& part : content->as_array()) {
    const json::object* object = part.if_object();
    const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
    const json::value* part_text = object != nullptr ? object->if_contains("text") : nullptr;
    if (type == nullptr || *type != "text" || part_text == nullptr || !part_text->is_string()) {
      return RefuseField(where, "'" + where + "' has " +
                                    (type != nullptr ? "a part of type " + ShownValue(*type)
                                                     : "the part " + ShownValue(part)) +
                                    "; this model reads text parts only: "
                                    "{\"type\": \"text\", \"text\": ...}.");
    }
    text += part_text->as_string();
  }
  return json::value(json::string(text));
}

std::optional<ApiError> ReadToolCalls(const std::string& where, json::object& message) {
  json::value* calls = message.if_contains("tool_calls");
  if (calls == nullptr || calls->is_null()) return std::nullopt;
  if (!calls->is_array()) {
    return RefuseField(
        where + ".tool_calls",
        "'" + where + ".tool_calls' is " + ShownValue(*calls) + "; expected an array of calls.");
  }
  for (json::value& call : calls->as_array()) {
    json::value* function = call.is_object() ? call.as_object().if_contains("function") : nullptr;
    if (function == nullptr || !function->is_object()) {
      return RefuseField(where + ".tool_calls",
                         "'" + where + ".tool_calls' has the call " + ShownValue(call) +
                             "; expected {\"type\": \"function\", \"function\": {\"name\", "
                             "\"arguments\"}}.");
    }
    json::value* arguments = function->as_object().if_contains("arguments");
    if (arguments != nullptr) ReadArguments(*arguments);
  }
  return std::nullopt;
}

std::optional<ApiError> ReadMessages(const json::value* messages, json::array* out) {
  if (messages == nullptr || !messages->is_array() || messages->as_array().empty()) {
    return RefuseField(
        "messages",
        (messages == nullptr ? "'messages' is missing" : "'messages' is " + ShownValue(*messages)) +
            "; expected a non-empty array of {\"role\", \"content\"} objects.");
  }
  for (size_t i = 0; i < messages->as_array().size(); ++i) {
    const std::string where = "messages[" + std::to_string(i) + "]";
    const json::object* message = messages->as_array()[i].if_object();
    const json::value* role = message != nullptr ? message->if_contains("role") : nullptr;
    if (role == nullptr || !role->is_string()) {
      return RefuseField(
          where, "'" + where + "' has no 'role'; expected an object with 'role' and 'content'.");
    }
    const std::string_view name = role->as_string();
    if (name != "system" && name != "developer" && name != "user" && name != "assistant" &&
        name != "tool") {
      return RefuseField(where + ".role",
                         "'" + where + ".role' is " + ShownValue(*role) +
                             "; expected system, developer, user, assistant or tool.");
    }
    auto content = ContentText(message->if_contains("content"), where + ".content");
    if (auto* error = std::get_if<ApiError>(&content)) return std::move(*error);
    json::value& text = std::get<json::value>(content);
    if (text.is_null() && name != "assistant") {
      return RefuseField(where + ".content", "'" + where + ".content' is missing.");
    }
    for (const char* field : {"function_call", "audio"}) {
      const json::value* given = message->if_contains(field);
      if (given == nullptr || given->is_null()) continue;
      return RefuseField(where + "." + field, "'" + where + "." + field + "' is not supported.");
    }
    json::object copy = *message;
    if (auto error = ReadToolCalls(where, copy)) return error;
    copy["content"] = std::move(text);
    if (name == "assistant") NameReasoning(copy);
    if (name == "developer") copy["role"] = "system";
    out->push_back(std::move(copy));
  }
  return std::nullopt;
}

void ReadTools(FieldReader& fields, ChatRequest* request) {
  const bool parses_calls = fields.Bool("parse_tool_calls", true);
  const json::value* choice = fields.Find("tool_choice");
  request->ends_with_call = !fields.Bool("parallel_tool_calls", true);
  const json::value* tools = fields.Find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.Fail("tools", *tools, "an array of tools");
  for (size_t i = 0; i < tools->as_array().size(); ++i) {
    const json::value& tool = tools->as_array()[i];
    if (tool.is_object()) continue;
    return fields.Fail("tools[" + std::to_string(i) + "]", tool,
                       "an object like {\"type\": \"function\", \"function\": {...}}");
  }
  if (choice == nullptr || *choice != "none") request->tools = tools->as_array();
  request->parses_calls = parses_calls && !request->tools.empty();
}

void ReadChoice(FieldReader& fields, ChatRequest* request) {
  const json::value* choice = fields.Find("tool_choice");
  if (choice == nullptr || *choice == "none") return;
  auto read = ReadToolChoice(*choice);
  if (!read)
    return fields.Fail("tool_choice", *choice,
                       "\"none\", \"auto\", \"required\" or {\"type\": \"function\", "
                       "\"function\": {\"name\": ...}}");
  if (const auto error = CheckChoice(*read, request->tools, ShownValue(*choice)))
    return fields.Fail(*error);
  request->tool_choice = std::move(*read);
}

void ReadThinking(FieldReader& fields, ChatRequest* request) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};
  if (const json::value* effort = fields.Find("reasoning_effort")) {
    if (!effort->is_string() ||
        std::ranges::find(kEfforts, std::string_view(effort->as_string())) == std::end(kEfforts))
      return fields.Fail("reasoning_effort", *effort,
                         "none, minimal, low, medium, high, xhigh or max");
    request->reasoning_effort = std::string(effort->as_string());
  }
  if (fields.Find("enable_thinking") != nullptr)
    request->enable_thinking = fields.Bool("enable_thinking", true);
  for (const char* name : {"max_thinking_tokens", "thinking_token_budget"})
    if (const auto count = fields.Integer(name, 0, kMostTokens))
      request->max_thinking_tokens = static_cast<uint32_t>(*count);
  const json::value* format = fields.Find("reasoning_format");
  request->splits_thinking =
      fields.Bool("separate_reasoning", true) && (format == nullptr || *format != "none");
  request->shows_thinking = fields.Bool("include_reasoning", true);
}

// Both names mean the same, and a client that says two things means one of them.
void ReadMaxTokens(FieldReader& fields, ChatRequest* request) {
  const auto older = fields.Integer("max_tokens", 1, kMostTokens);
  const auto newer = fields.Integer("max_completion_tokens", 1, kMostTokens);
  if (older && newer && *older != *newer) {
    return fields.Fail("max_tokens", *fields.Find("max_tokens"),
                       "the " + std::to_string(*newer) + " of 'max_completion_tokens'");
  }
  if (newer || older) request->max_tokens = static_cast<uint32_t>(newer ? *newer : *older);
}

// What is kept of the chat, and with whom it shares.
std::optional<ApiError> ReadSharing(FieldReader& fields, ChatRequest* request) {
  const json::value* keep = fields.Find("keep");
  if (keep != nullptr) {
    if (!keep->is_string())
      return RefuseField("keep", "'keep' is " + ShownValue(*keep) + "; expected a name.");
    request->keep = std::string(keep->as_string());
    if (auto error = CheckPrefixName(request->keep)) return error;
  }
  request->cache_key = ReadCacheKey(fields);
  request->cache_salt = ReadCacheSalt(fields);
  if (keep != nullptr && !request->cache_salt.empty())
    return RefuseField("cache_salt",
                       "What 'keep' keeps is for all chats of a key; leave 'cache_salt' out.");
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> CheckPrefixName(std::string_view name) {
  const bool is_good =
      !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_';
      });
  if (is_good) return std::nullopt;
  return RefuseField("keep", "A prefix cannot be named " + ShownValue(json::value(name)) +
                                 "; expected 1 to " + std::to_string(kMostNameBytes) +
                                 " letters, digits, '-', '.' or '_'.");
}

ApiResult<ChatRequest> ParseChatRequest(ByteSpan body, const sampling::Parameters& defaults) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  FieldReader fields(object);
  ChatRequest request;
  request.sampling = defaults;
  request.model = fields.Model();
  if (fields.error()) return *fields.error();
  if (auto error = RefuseFields(object)) return *error;
  if (auto error = ReadMessages(fields.Find("messages"), &request.messages)) return *error;
  request.stop = fields.Stop("stop");
  if (fields.error()) return *fields.error();
  if (auto error = ReadLogitBias(fields.Find("logit_bias"), &request.sampling)) return *error;
  ReadSampling(fields, &request.sampling);
  ReadMaxTokens(fields, &request);
  if (const auto x = fields.Integer("n", 1, kMostChoices))
    request.choices = static_cast<uint32_t>(*x);
  request.stream = fields.Bool("stream", false);
  request.ignore_eos = fields.Bool("ignore_eos", false);
  if (auto error = ReadSharing(fields, &request)) return *error;
  request.logprobs = fields.Bool("logprobs", false);
  if (const auto x = fields.Integer("top_logprobs", 0, kMostTopLogprobs)) {
    request.top_logprobs = static_cast<uint32_t>(*x);
  }
  if (request.top_logprobs > 0 && !request.logprobs && !fields.error()) {
    return RefuseField("top_logprobs", "'top_logprobs' is " + std::to_string(request.top_logprobs) +
                                           ", which needs 'logprobs': true.");
  }
  request.include_usage = ReadIncludeUsage(fields);
  if (const json::value* kwargs = fields.Find("chat_template_kwargs")) {
    if (kwargs->is_object()) {
      request.template_kwargs = kwargs->as_object();
    } else {
      fields.Fail("chat_template_kwargs", *kwargs, "an object");
    }
  }
  ReadTools(fields, &request);
  ReadChoice(fields, &request);
  ReadThinking(fields, &request);
  if (fields.error()) return *fields.error();
  auto form = ReadRequestedForm(object);
  if (auto* error = std::get_if<ApiError>(&form)) return std::move(*error);
  request.form = std::get<std::optional<AnswerForm>>(std::move(form));
  if (request.form && request.ignore_eos)
    return RefuseField("ignore_eos", "'ignore_eos' is true, but the answer ends where '" +
                                         request.form->field + "' says; expected false.");
  return request;
}

}  // namespace weft::api
