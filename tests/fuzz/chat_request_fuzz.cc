// Bodies of requests in each form: whatever comes is a request or a refusal in valid UTF-8, in the
// words of each API.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <variant>

#include "api/anthropic_request.h"
#include "api/anthropic_response.h"
#include "api/embedding_request.h"
#include "api/ollama_request.h"
#include "api/ollama_response.h"
#include "api/openai_request.h"
#include "api/openai_response.h"
#include "api/responses_items.h"
#include "api/responses_request.h"
#include "api/text_request.h"
#include "text/utf8.h"

namespace {

void CheckText(const std::string& text) {
  if (weft::utf8::FindInvalid(text) != std::string::npos) std::abort();
}

template <typename T>
void Check(const weft::api::ApiResult<T>& parsed, bool (*is_good)(const T&)) {
  if (const auto* request = std::get_if<T>(&parsed)) {
    if (!is_good(*request)) std::abort();
    return;
  }
  const auto& error = std::get<weft::api::ApiError>(parsed);
  if (error.status != 400) std::abort();
  CheckText(error.message);
  CheckText(weft::api::ErrorJson(error));
  CheckText(weft::api::AnthropicErrorJson(error));
  CheckText(weft::api::OllamaErrorJson(error));
}

bool HasMessages(const weft::api::ChatRequest& chat) {
  return !chat.messages.empty();
}

bool HasNoMessages(const weft::api::TextRequest& text) {
  return text.chat.messages.empty();
}

// What the server looks up is no message yet.
bool BecomesMessages(const weft::api::ResponsesRequest& request) {
  boost::json::array items;
  for (const boost::json::value& item : request.items)
    if (item.at("type") != "item_reference") items.push_back(item);
  return weft::api::MessagesOf(items, request.instructions).size() <= items.size() + 1;
}

bool AsksOrLoads(const weft::api::OllamaRequest& request) {
  const bool asks = !request.chat.messages.empty() || request.raw;
  return asks == request.load.empty();
}

bool HasInputsInBounds(const weft::api::EmbeddingRequest& request) {
  if (request.inputs.size() > weft::api::kMostEmbeddingInputs) return false;
  for (const weft::api::EmbeddingInput& input : request.inputs)
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&input))
      for (const int32_t id : *ids)
        if (id < 0) return false;
  return true;
}

// OpenAI's form asks for something.
bool AsksForVectors(const weft::api::EmbeddingRequest& request) {
  return !request.inputs.empty() && HasInputsInBounds(request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const weft::ByteSpan body{data, size};
  Check(weft::api::ParseChatRequest(body), HasMessages);
  Check(weft::api::ParseTextRequest(body), HasNoMessages);
  Check(weft::api::ParseResponsesRequest(body), BecomesMessages);
  Check(weft::api::ParseAnthropicRequest(body), HasMessages);
  Check(weft::api::ParseAnthropicRequest(body, {}, /*counts_only=*/true), HasMessages);
  Check(weft::api::ParseOllamaChat(body), AsksOrLoads);
  Check(weft::api::ParseOllamaGenerate(body), AsksOrLoads);
  Check(weft::api::ParseEmbeddingRequest(body), AsksForVectors);
  Check(weft::api::ParseOllamaEmbed(body), HasInputsInBounds);
  Check(weft::api::ParseOllamaEmbeddings(body), HasInputsInBounds);
  return 0;
}
