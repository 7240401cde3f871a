#include "api/openai_response.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <utility>

#include "base/spelling.h"
#include "text/utf8.h"

namespace weft::api {
namespace json = boost::json;

namespace {

json::value OrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::object ModelObject(const ServedModel& model) {
  const json::array text = {"text"};
  const bool embeds =
      std::ranges::find(model.capabilities, "embedding") != model.capabilities.end();
  const json::array given = {embeds ? "embeddings" : "text"};
  json::object object = {
      {"id", model.name},
      {"object", "model"},
      {"created", model.created},
      {"owned_by", "weft"},
      {"max_model_len", model.context_length},
      {"context_length", model.context_length},
      {"architecture", {{"input_modalities", text}, {"output_modalities", given}}},
      {"capabilities", json::value_from(model.capabilities)}};
  if (!model.state.empty()) object["state"] = model.state;
  return object;
}

json::object ErrorObject(const ApiError& error) {
  return {{"error",
           {{"message", Utf8(error.message)},
            {"type", error.type},
            {"param", OrNull(Utf8(error.param))},
            {"code", OrNull(error.code)}}}};
}

std::string Event(const json::object& object) {
  return "data: " + json::serialize(object) + "\n\n";
}

json::object ChanceJson(const TokenChance& chance) {
  json::array bytes;
  for (const char c : chance.bytes) bytes.push_back(static_cast<uint8_t>(c));
  return {{"token", chance.text}, {"logprob", chance.logprob}, {"bytes", std::move(bytes)}};
}

}  // namespace

std::string Utf8(const std::string& text) {
  if (utf8::FindInvalid(text) == std::string::npos) return text;
  std::string valid;
  utf8::LossyDecoder decoder;
  decoder.Push(text, valid);
  decoder.Flush(valid);
  return valid;
}

std::string ErrorJson(const ApiError& error) {
  return json::serialize(ErrorObject(error));
}

ApiError FromError(const Error& error) {
  ApiError api_error;
  api_error.message = error.ToString();
  api_error.code = ErrorCodeName(error.code());
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
      return api_error;
    case ErrorCode::kLimitExceeded:
      api_error.param = "messages";
      api_error.code = "context_length_exceeded";
      return api_error;
    case ErrorCode::kNotFound:
      api_error.status = 404;
      return api_error;
    case ErrorCode::kUnavailable:
    case ErrorCode::kOutOfMemory:
      api_error.status = 503;
      api_error.type = "overloaded_error";
      return api_error;
    case ErrorCode::kTimeout:
      api_error.status = 504;
      api_error.type = "timeout_error";
      return api_error;
    default:
      api_error.status = 500;
      api_error.type = "server_error";
      return api_error;
  }
}

std::string ModelsJson(std::span<const ServedModel> models) {
  json::array data;
  for (const ServedModel& model : models) data.push_back(ModelObject(model));
  return json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}});
}

std::string ModelJson(const ServedModel& model) {
  return json::serialize(ModelObject(model));
}

bool IsServed(std::string_view asked, std::string_view served) {
  constexpr std::string_view kTag = ":latest";
  if (asked.empty() || asked == served) return true;
  return asked.ends_with(kTag) && asked.substr(0, asked.size() - kTag.size()) == served;
}

ApiError NoSuchModel(const std::string& asked, const std::string& served) {
  return {
      404,
      "There is no model '" + asked.substr(0, 200) + "' here; this server has '" + served + "'.",
      "invalid_request_error", "model", "model_not_found"};
}

ApiError NoSuchModel(const std::string& asked, std::span<const std::string> served) {
  return {404,
          "There is no model '" + asked.substr(0, 200) + "' here." + DidYouMean(asked, served) +
              (served.empty() ? " 'weft pull' gets models from a registry."
                              : " GET /v1/models lists those that are."),
          "invalid_request_error", "model", "model_not_found"};
}

json::object UsageObject(const Usage& usage) {
  json::object object = {
      {"prompt_tokens", usage.prompt_tokens},
      {"completion_tokens", usage.completion_tokens},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
      {"prompt_tokens_details", {{"cached_tokens", usage.cached_prompt_tokens}}},
      {"completion_tokens_details", {{"reasoning_tokens", usage.thinking_tokens}}}};
  if (usage.lost_groups) object["lost_groups"] = *usage.lost_groups;
  return object;
}

json::object HeadJson(const CompletionHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

std::string ChunkEvent(const CompletionHead& head, uint32_t index, json::object delta,
                       const std::string& finish_reason, json::value logprobs) {
  json::object chunk = HeadJson(head, "chat.completion.chunk");
  json::object choice = {{"index", index},
                         {"delta", std::move(delta)},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", OrNull(finish_reason)}};
  chunk["choices"] = json::array{std::move(choice)};
  return Event(chunk);
}

std::string ContentEvent(const CompletionHead& head, uint32_t index, const std::string& text) {
  std::string event = "data: {\"id\":";
  event += json::serialize(json::string_view(head.id));
  event += ",\"object\":\"chat.completion.chunk\",\"created\":" + std::to_string(head.created);
  event += ",\"model\":" + json::serialize(json::string_view(head.model));
  event += ",\"choices\":[{\"index\":" + std::to_string(index) + ",\"delta\":{\"content\":";
  event += json::serialize(json::string_view(text));
  event += "},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
  return event;
}

std::string UsageEvent(const CompletionHead& head, const Usage& usage) {
  json::object chunk = HeadJson(head, "chat.completion.chunk");
  chunk["choices"] = json::array();
  chunk["usage"] = UsageObject(usage);
  return Event(chunk);
}

std::string ProgressComment(const swarm::RequestProgress& progress) {
  json::object fields;
  if (progress.waiting) {
    fields["requests_ahead"] = progress.requests_ahead;
  } else {
    fields["prompt_tokens"] = progress.prompt_tokens;
    fields["prompt_done"] = progress.prompt_done;
  }
  return ": progress " + json::serialize(fields) + "\n\n";
}

std::string LoadingComment(const std::string& model, std::optional<uint32_t> percent) {
  json::object fields = {{"loading", model}};
  if (percent) fields["percent"] = *percent;
  return ": progress " + json::serialize(fields) + "\n\n";
}

std::string ErrorEvent(const ApiError& error) {
  return Event(ErrorObject(error));
}

json::object LogprobJson(const SaidToken& said) {
  json::object entry = ChanceJson(said.token);
  json::array top;
  for (const TokenChance& other : said.top) top.push_back(ChanceJson(other));
  entry["top_logprobs"] = std::move(top);
  return entry;
}

std::string FinishReason(EndReason reason) {
  switch (reason) {
    case EndReason::kLength:
      return "length";
    case EndReason::kCalls:
      return "tool_calls";
    case EndReason::kStop:
      break;
  }
  return "stop";
}

json::object ChoiceJson(uint32_t index, json::object message, const std::string& finish_reason,
                        json::value logprobs) {
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", finish_reason}};
}

std::string CompletionJson(const CompletionHead& head, json::array choices, const Usage& usage) {
  json::object completion = HeadJson(head, "chat.completion");
  completion["choices"] = std::move(choices);
  completion["usage"] = UsageObject(usage);
  return json::serialize(completion);
}

}  // namespace weft::api
