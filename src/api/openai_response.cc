#include "api/openai_response.h"

#include <boost/json/serialize.hpp>

namespace weft::api {
namespace json = boost::json;

namespace {

json::value OrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::object ErrorObject(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", OrNull(error.param)},
            {"code", OrNull(error.code)}}}};
}

json::object UsageObject(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_prompt_tokens}}}};
}

json::object Head(const CompletionHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

std::string Event(const json::object& object) {
  return "data: " + json::serialize(object) + "\n\n";
}

}  // namespace

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

std::string ModelsJson(const std::string& model, int64_t created) {
  const json::object entry = {
      {"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "weft"}};
  return json::serialize(json::object{{"object", "list"}, {"data", json::array{entry}}});
}

std::string ChunkEvent(const CompletionHead& head, json::object delta,
                       const std::string& finish_reason, json::value logprobs) {
  json::object chunk = Head(head, "chat.completion.chunk");
  json::object choice = {{"index", 0},
                         {"delta", std::move(delta)},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", OrNull(finish_reason)}};
  chunk["choices"] = json::array{std::move(choice)};
  return Event(chunk);
}

std::string ContentEvent(const CompletionHead& head, const std::string& text) {
  std::string event = "data: {\"id\":";
  event += json::serialize(json::string_view(head.id));
  event += ",\"object\":\"chat.completion.chunk\",\"created\":" + std::to_string(head.created);
  event += ",\"model\":" + json::serialize(json::string_view(head.model));
  event += ",\"choices\":[{\"index\":0,\"delta\":{\"content\":";
  event += json::serialize(json::string_view(text));
  event += "},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
  return event;
}

std::string UsageEvent(const CompletionHead& head, const Usage& usage) {
  json::object chunk = Head(head, "chat.completion.chunk");
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

std::string ErrorEvent(const ApiError& error) {
  return Event(ErrorObject(error));
}

std::string CompletionJson(const CompletionHead& head, const std::string& text,
                           const std::string& finish_reason, const Usage& usage,
                           json::value logprobs) {
  json::object completion = Head(head, "chat.completion");
  json::object choice = {
      {"index", 0},
      {"message", {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}}},
      {"logprobs", std::move(logprobs)},
      {"finish_reason", finish_reason}};
  completion["choices"] = json::array{std::move(choice)};
  completion["usage"] = UsageObject(usage);
  return json::serialize(completion);
}

}  // namespace weft::api
