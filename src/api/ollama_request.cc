#include "api/ollama_request.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <deque>
#include <string_view>
#include <utility>

#include "api/chat_messages.h"
#include "api/field_reader.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr int64_t kMostTopLogprobs = 20;

struct OpenCall {
  std::string id, name;
};

// Ollama's calls have had no ids for long, and what a tool said follows its call or has its name.
// Templates that show ids want one; those of Mistral want nine letters and digits.
class MessageReader {
 public:
  explicit MessageReader(json::array* out) : out_(*out) {}

  std::optional<ApiError> Read(const json::value& message, const std::string& where);

 private:
  std::optional<ApiError> ReadCalls(const json::value& calls, const std::string& where,
                                    json::object* message);
  void NameTool(const json::object& given, json::object* message);

  json::array& out_;
  std::deque<OpenCall> open_calls_;
  int call_count_ = 0;
};

ApiError Unexpected(const std::string& field, const json::value& value,
                    const std::string& expected) {
  return RefuseField(field,
                     "'" + field + "' is " + ShownValue(value) + "; expected " + expected + ".");
}

// A string that is there and says something.
std::string_view TextIn(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string()) : "";
}

std::optional<ApiError> MessageReader::ReadCalls(const json::value& calls, const std::string& where,
                                                 json::object* message) {
  if (!calls.is_array()) return Unexpected(where, calls, "an array of calls");
  json::array read;
  for (const json::value& call : calls.as_array()) {
    const json::object* object = call.if_object();
    const json::value* function = object != nullptr ? object->if_contains("function") : nullptr;
    if (function == nullptr || !function->is_object() ||
        TextIn(function->as_object(), "name").empty())
      return Unexpected(where, call, "{\"function\": {\"name\", \"arguments\": {...}}}");
    const json::value* given = function->as_object().if_contains("arguments");
    json::value arguments = given != nullptr ? *given : json::object();
    ReadArguments(arguments);
    const std::string number = std::to_string(++call_count_ % 100000);
    std::string id(TextIn(*object, "id"));
    if (id.empty()) id = "call" + std::string(5 - number.size(), '0') + number;
    const std::string name(TextIn(function->as_object(), "name"));
    open_calls_.push_back({id, name});
    read.push_back({{"id", id},
                    {"type", "function"},
                    {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
  }
  if (!read.empty()) (*message)["tool_calls"] = std::move(read);
  return std::nullopt;
}

// By the id of the call, else by the tool's name, else the first that has no answer yet.
void MessageReader::NameTool(const json::object& given, json::object* message) {
  std::string_view name = TextIn(given, "tool_name");
  if (name.empty()) name = TextIn(given, "name");
  const std::string_view id = TextIn(given, "tool_call_id");
  const auto found = std::ranges::find_if(open_calls_, [&](const OpenCall& call) {
    return id.empty() ? name.empty() || call.name == name : call.id == id;
  });
  OpenCall call{std::string(id), std::string(name)};
  if (found != open_calls_.end()) {
    call = *found;
    open_calls_.erase(found);
  }
  if (!call.id.empty()) (*message)["tool_call_id"] = call.id;
  if (!call.name.empty()) (*message)["name"] = call.name;
}

std::optional<ApiError> MessageReader::Read(const json::value& message, const std::string& where) {
  const json::object* object = message.if_object();
  if (object == nullptr) return Unexpected(where, message, "{\"role\", \"content\"}");
  const std::string role(TextIn(*object, "role"));
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    const json::value* given = object->if_contains("role");
    return Unexpected(where + ".role", given != nullptr ? *given : json::value(),
                      "system, user, assistant or tool");
  }
  const json::value* images = object->if_contains("images");
  if (images != nullptr && !images->is_null() && *images != json::array())
    return Unexpected(where + ".images", *images, "none, as this model reads text alone");
  const json::value* content = object->if_contains("content");
  if (content != nullptr && !content->is_null() && !content->is_string())
    return Unexpected(where + ".content", *content, "a string");
  json::object read = MessageOf(role.c_str(), std::string(TextIn(*object, "content")));
  if (role == "tool") NameTool(*object, &read);
  if (role == "assistant") {
    open_calls_.clear();
    const json::value* calls = object->if_contains("tool_calls");
    if (calls != nullptr && !calls->is_null())
      if (auto error = ReadCalls(*calls, where + ".tool_calls", &read)) return error;
    if (read.contains("tool_calls") && read.at("content") == "") read["content"] = nullptr;
    if (const std::string_view thoughts = TextIn(*object, "thinking"); !thoughts.empty())
      read["reasoning_content"] = thoughts;
    NameReasoning(read);
  }
  out_.push_back(std::move(read));
  return std::nullopt;
}

void ReadMessages(FieldReader& fields, json::array* out) {
  const json::value* messages = fields.Find("messages");
  if (messages == nullptr) return;
  if (!messages->is_array())
    return fields.Fail("messages", *messages, "an array of {\"role\", \"content\"} objects");
  MessageReader reader(out);
  for (size_t i = 0; i < messages->as_array().size(); ++i) {
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (const auto error = reader.Read(messages->as_array()[i], where)) return fields.Fail(*error);
  }
  if (!out->empty() && out->back().at("role") == "assistant")
    fields.Fail(RefuseField("messages",
                            "'messages' ends with one of the assistant, which weft cannot go on "
                            "with; expected one of the user."));
}

// What is beside the options is passed over by Ollama, but some of its clients put it there.
void ReadBesideOptions(FieldReader& fields, ChatRequest* request) {
  if (const auto x = fields.Number("temperature", sampling::kTemperatureRange))
    request->sampling.temperature = static_cast<float>(*x);
  if (const auto x = fields.Number("top_p", sampling::kTopPRange))
    request->sampling.top_p = static_cast<float>(*x);
  if (const auto x = fields.Integer("max_output_tokens", 1, kMostTokens))
    request->max_tokens = static_cast<uint32_t>(*x);
}

void ReadOptions(FieldReader& fields, ChatRequest* request) {
  const json::value* given = fields.Find("options");
  if (given == nullptr) return;
  if (!given->is_object()) return fields.Fail("options", *given, "an object");
  if (const auto error = RefuseFields(given->as_object(), OllamaOptions()))
    return fields.Fail(*error);
  FieldReader options(given->as_object(), "options.");
  sampling::Parameters& sampling = request->sampling;
  const auto read = [&options](const char* name, sampling::Range range, float* out) {
    if (const auto x = options.Number(name, range)) *out = static_cast<float>(*x);
  };
  read("temperature", sampling::kTemperatureRange, &sampling.temperature);
  read("top_p", sampling::kTopPRange, &sampling.top_p);
  read("min_p", sampling::kMinPRange, &sampling.min_p);
  read("presence_penalty", sampling::kPenaltyRange, &sampling.presence_penalty);
  read("frequency_penalty", sampling::kPenaltyRange, &sampling.frequency_penalty);
  read("repeat_penalty", sampling::kRepetitionPenaltyRange, &sampling.repetition_penalty);
  if (const auto x = options.Integer("top_k", -1, sampling::kMaxTopK))
    sampling.top_k = *x < 0 ? 0 : static_cast<int32_t>(*x);
  if (const auto x = options.Integer("seed", INT64_MIN, INT64_MAX))
    sampling.seed = static_cast<uint64_t>(*x);
  // -1: as many as it likes; -2: until the context is full. Both end at the context here.
  if (const auto x = options.Integer("num_predict", -2, kMostTokens); x && *x > 0)
    request->max_tokens = static_cast<uint32_t>(*x);
  request->stop = options.Stop("stop");
  if (options.error()) fields.Fail(*options.error());
}

// Whether to think, and how much, is told to templates that take it; those of models that always
// think do not. There thoughts that are not wanted end where they begin.
void ReadThink(FieldReader& fields, ChatRequest* request) {
  constexpr std::string_view kEfforts[] = {"low", "medium", "high", "max"};
  const json::value* think = fields.Find("think");
  if (think == nullptr || *think == "") return;
  const bool is_effort =
      think->is_string() &&
      std::ranges::find(kEfforts, std::string_view(think->as_string())) != std::end(kEfforts);
  if (!is_effort && !think->is_bool())
    return fields.Fail("think", *think, "true, false, low, medium, high or max");
  const bool thinks = is_effort || think->as_bool();
  request->template_kwargs["enable_thinking"] = thinks;
  if (is_effort) request->template_kwargs["reasoning_effort"] = *think;
  if (!thinks) request->max_thinking_tokens = 0;
}

void ReadFormat(FieldReader& fields, ChatRequest* request) {
  const json::value* format = fields.Find("format");
  if (format == nullptr || *format == "") return;
  AnswerForm form;
  form.field = "format";
  if (format->is_object()) {
    form.kind = AnswerForm::Kind::kSchema;
    form.schema = *format;
  } else if (*format != "json") {
    return fields.Fail("format", *format, "\"json\" or a JSON Schema");
  }
  request->form = std::move(form);
}

void ReadTools(FieldReader& fields, ChatRequest* request) {
  const json::value* tools = fields.Find("tools");
  if (tools == nullptr) return;
  const auto is_tool = [](const json::value& tool) {
    const json::object* object = tool.if_object();
    const json::value* function = object != nullptr ? object->if_contains("function") : nullptr;
    return function != nullptr && function->is_object();
  };
  if (!tools->is_array() || !std::ranges::all_of(tools->as_array(), is_tool))
    return fields.Fail("tools", *tools,
                       "an array of {\"type\": \"function\", \"function\": {...}}");
  request->tools = tools->as_array();
}

// Ollama has none, but some of its clients send OpenAI's.
void ReadChoice(FieldReader& fields, ChatRequest* request) {
  const json::value* choice = fields.Find("tool_choice");
  if (choice != nullptr && *choice == "none") request->tools.clear();
  request->parses_calls = !request->tools.empty();
  if (choice == nullptr || *choice == "none") return;
  auto read = ReadToolChoice(*choice);
  if (!read)
    return fields.Fail(
        "tool_choice", *choice,
        "none, auto, required or {\"type\": \"function\", \"function\": {\"name\"}}");
  if (const auto error = CheckChoice(*read, request->tools, ShownValue(*choice)))
    return fields.Fail(*error);
  request->tool_choice = std::move(*read);
}

// What chats and prompts have in common.
void ReadCommon(FieldReader& fields, ChatRequest* request) {
  request->stream = fields.Bool("stream", true);
  request->logprobs = fields.Bool("logprobs", false);
  if (const auto x = fields.Integer("top_logprobs", 0, kMostTopLogprobs); x && request->logprobs)
    request->top_logprobs = static_cast<uint32_t>(*x);
  ReadBesideOptions(fields, request);
  ReadOptions(fields, request);
  ReadThink(fields, request);
  ReadFormat(fields, request);
}

std::string LoadOf(const FieldReader& fields) {
  const json::value* keep_alive = fields.Find("keep_alive");
  const bool unloads = keep_alive != nullptr && (*keep_alive == 0 || *keep_alive == "0" ||
                                                 *keep_alive == "0s" || *keep_alive == "0m");
  return unloads ? "unload" : "load";
}

// A prompt with a system message, or the prompt as it is.
void ReadPrompt(FieldReader& fields, OllamaRequest* request) {
  for (const char* name : {"prompt", "system"}) {
    const json::value* text = fields.Find(name);
    if (text != nullptr && !text->is_string()) return fields.Fail(name, *text, "a string");
  }
  const auto text = [&fields](const char* name) {
    const json::value* value = fields.Find(name);
    return value != nullptr ? std::string(value->as_string()) : std::string();
  };
  std::string prompt = text("prompt"), system = text("system");
  if (fields.Bool("raw", false)) {
    if (!system.empty())
      fields.Fail("system", *fields.Find("system"), "none, as a raw prompt goes in as it is");
    if (!prompt.empty()) request->raw = std::move(prompt);
    return;
  }
  if (prompt.empty()) return;
  if (!system.empty()) request->chat.messages.push_back(MessageOf("system", std::move(system)));
  request->chat.messages.push_back(MessageOf("user", std::move(prompt)));
}

ApiResult<OllamaRequest> Parse(ByteSpan body, const sampling::Parameters& defaults,
                               const FieldTable& table, bool is_chat) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  FieldReader fields(object);
  OllamaRequest request;
  request.chat.sampling = defaults;
  request.chat.model = fields.Model();
  if (fields.error()) return *fields.error();
  if (auto error = RefuseFields(object, table)) return *error;
  if (is_chat) {
    ReadMessages(fields, &request.chat.messages);
    ReadTools(fields, &request.chat);
    ReadChoice(fields, &request.chat);
  } else {
    ReadPrompt(fields, &request);
  }
  ReadCommon(fields, &request.chat);
  if (fields.error()) return *fields.error();
  if (request.chat.messages.empty() && !request.raw) request.load = LoadOf(fields);
  return request;
}

}  // namespace

ApiResult<OllamaRequest> ParseOllamaChat(ByteSpan body, const sampling::Parameters& defaults) {
  return Parse(body, defaults, OllamaChatFields(), true);
}

ApiResult<OllamaRequest> ParseOllamaGenerate(ByteSpan body, const sampling::Parameters& defaults) {
  return Parse(body, defaults, OllamaGenerateFields(), false);
}

ApiResult<std::string> ParseOllamaShow(ByteSpan body) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  for (const char* name : {"model", "name"}) {
    const std::string_view asked = TextIn(object, name);
    if (!asked.empty()) return std::string(asked);
  }
  return RefuseField("model", "'model' is missing; expected the name of a model.");
}

}  // namespace weft::api
