#include "api/anthropic_response.h"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "api/answer_message.h"
#include "api/anthropic_request.h"
#include "api/ollama_response.h"

namespace weft::api {
namespace json = boost::json;

namespace {

// Anthropic signs thoughts, and clients send them back only with a signature. Nobody checks it.
constexpr const char* kSignature = "weft";

std::string Event(const char* name, const json::object& data) {
  return "event: " + std::string(name) + "\ndata: " + json::serialize(data) + "\n\n";
}

const char* ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

json::object ErrorBody(const ApiError& error) {
  json::object inner = {{"type", ErrorType(error.status)}, {"message", Utf8(error.message)}};
  if (error.code == kNoThreads)
    inner["details"] = {{"error_code", kNoThreads}, {"unsupported", json::array{"thread"}}};
  return {{"type", "error"}, {"error", std::move(inner)}};
}

// Tokens that were held already are not among those of the input there.
json::object UsageJson(const Usage& usage) {
  json::object object = {{"input_tokens", usage.prompt_tokens - usage.cached_prompt_tokens},
                         {"cache_creation_input_tokens", 0},
                         {"cache_read_input_tokens", usage.cached_prompt_tokens},
                         {"output_tokens", usage.completion_tokens},
                         {"output_tokens_details", {{"thinking_tokens", usage.thinking_tokens}}}};
  if (usage.lost_groups) object["lost_groups"] = *usage.lost_groups;
  return object;
}

const char* StopReason(const AnswerEnd& end) {
  switch (end.reason) {
    case EndReason::kLength:
      return "max_tokens";
    case EndReason::kCalls:
      return "tool_use";
    case EndReason::kStop:
      break;
  }
  return end.stop_string.empty() ? "end_turn" : "stop_sequence";
}

json::value StopSequence(const AnswerEnd& end) {
  const bool ended_it = end.reason == EndReason::kStop && !end.stop_string.empty();
  return ended_it ? json::value(end.stop_string) : json::value();
}

json::object ModelInfo(const ServedModel& model) {
  return {{"type", "model"},
          {"id", model.name},
          {"display_name", model.name},
          {"created_at", Rfc3339(model.created * 1'000'000)},
          {"max_input_tokens", model.context_length},
          {"max_tokens", model.context_length},
          {"capabilities", nullptr}};
}

}  // namespace

int AnthropicStatus(int status) {
  return status == 503 ? 529 : status;
}

std::string AnthropicErrorJson(const ApiError& error) {
  return json::serialize(ErrorBody(error));
}

std::string AnthropicErrorEvent(const ApiError& error) {
  return Event("error", ErrorBody(error));
}

std::string AnthropicPing() {
  return Event("ping", {{"type", "ping"}});
}

std::string AnthropicCountJson(size_t prompt_tokens) {
  return json::serialize(json::object{{"input_tokens", prompt_tokens}});
}

std::string AnthropicModelsJson(std::span<const ServedModel> models) {
  json::array data;
  for (const ServedModel& model : models) data.push_back(ModelInfo(model));
  json::object list = {{"data", std::move(data)}, {"has_more", false}};
  list["first_id"] = models.empty() ? json::value(nullptr) : json::value(models.front().name);
  list["last_id"] = models.empty() ? json::value(nullptr) : json::value(models.back().name);
  return json::serialize(list);
}

std::string AnthropicModelJson(const ServedModel& model) {
  return json::serialize(ModelInfo(model));
}

json::object AnthropicMessage::Head() const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_},
          {"content", json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

// Of arguments that are JSON, which calls always have.
json::object AnthropicMessage::BlockJson(const Block& block) {
  switch (block.kind) {
    case Kind::kText:
      return {{"type", "text"}, {"text", block.text}};
    case Kind::kThinking:
      return {{"type", "thinking"}, {"thinking", block.text}, {"signature", kSignature}};
    case Kind::kCall:
      break;
  }
  boost::system::error_code not_json;
  json::value input = json::parse(block.text, not_json);
  if (not_json || !input.is_object()) input = json::object();
  return {
      {"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", std::move(input)}};
}

std::string AnthropicMessage::Begin(size_t prompt_tokens) const {
  json::object message = Head();
  Usage usage;
  usage.prompt_tokens = static_cast<uint32_t>(prompt_tokens);
  message["usage"] = UsageJson(usage);
  return Event("message_start", {{"type", "message_start"}, {"message", std::move(message)}}) +
         AnthropicPing();
}

std::string AnthropicMessage::Open(Block block) {
  std::string events = Close();
  json::object begins = BlockJson(block);
  if (block.kind == Kind::kThinking) begins["signature"] = "";
  events += Event("content_block_start", {{"type", "content_block_start"},
                                          {"index", blocks_.size()},
                                          {"content_block", std::move(begins)}});
  blocks_.push_back(std::move(block));
  is_open_ = true;
  return events;
}

std::string AnthropicMessage::OpenText(Kind kind) {
  if (is_open_ && blocks_.back().kind == kind) return "";
  return Open({kind, "", "", ""});
}

// Without a tree: it is sent for every token.
std::string AnthropicMessage::Add(const char* delta, const char* field, std::string_view text) {
  std::string event =
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
  event += std::to_string(blocks_.size() - 1) + ",\"delta\":{\"type\":\"" + delta + "\",\"" +
           field + "\":" + json::serialize(json::string_view(text)) + "}}\n\n";
  return event;
}

std::string AnthropicMessage::Close() {
  if (!is_open_) return "";
  is_open_ = false;
  std::string events;
  if (blocks_.back().kind == Kind::kThinking)
    events = Add("signature_delta", "signature", kSignature);
  return events + Event("content_block_stop",
                        {{"type", "content_block_stop"}, {"index", blocks_.size() - 1}});
}

std::string AnthropicMessage::Take(const std::vector<chat::Event>& events) {
  std::string out;
  for (const chat::Event& event : events) {
    switch (event.kind) {
      case chat::EventKind::kContent:
        out += OpenText(Kind::kText);
        out += Add("text_delta", "text", event.text);
        break;
      case chat::EventKind::kReasoning:
        out += OpenText(Kind::kThinking);
        out += Add("thinking_delta", "thinking", event.text);
        break;
      case chat::EventKind::kCallBegins:
        out += Open({Kind::kCall, "", CallId(event, short_ids_, "toolu_"), event.text});
        continue;
      case chat::EventKind::kArguments:
        out += Add("input_json_delta", "partial_json", event.text);
        break;
      case chat::EventKind::kCallEnds:
        out += Close();
        continue;
    }
    blocks_.back().text += event.text;
  }
  return out;
}

std::string AnthropicMessage::End(const AnswerEnd& end) {
  const json::object delta = {{"stop_reason", StopReason(end)},
                              {"stop_sequence", StopSequence(end)}};
  return Close() +
         Event("message_delta",
               {{"type", "message_delta"}, {"delta", delta}, {"usage", UsageJson(end.usage)}}) +
         Event("message_stop", {{"type", "message_stop"}});
}

std::string AnthropicMessage::Whole(const AnswerEnd& end) const {
  json::object message = Head();
  for (const Block& block : blocks_) message["content"].as_array().push_back(BlockJson(block));
  message["stop_reason"] = StopReason(end);
  message["stop_sequence"] = StopSequence(end);
  message["usage"] = UsageJson(end.usage);
  return json::serialize(message);
}

}  // namespace weft::api
