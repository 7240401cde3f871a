// The body of POST /v1/chat/completions: whatever comes is a request or a refusal in valid UTF-8.
#include <cstdint>
#include <cstdlib>
#include <variant>

#include "api/openai_request.h"
#include "api/openai_response.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = weft::api::ParseChatRequest({data, size});
  if (const auto* chat = std::get_if<weft::api::ChatRequest>(&parsed)) {
    if (chat->messages.empty()) std::abort();
    return 0;
  }
  const auto& error = std::get<weft::api::ApiError>(parsed);
  if (error.status != 400) std::abort();
  if (weft::utf8::FindInvalid(error.message) != std::string::npos) std::abort();
  if (weft::utf8::FindInvalid(weft::api::ErrorJson(error)) != std::string::npos) std::abort();
  return 0;
}
