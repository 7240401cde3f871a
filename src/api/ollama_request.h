// POST /api/chat and /api/generate, Ollama's: the body, parsed and validated, as the chat that it
// asks for. Errors name the field as api_error.h has it; docs/ollama.md shows every field.
#pragma once

#include <optional>
#include <string>

#include "api/openai_request.h"
#include "api/request_fields.h"
#include "base/bytes.h"

namespace weft::api {

struct OllamaRequest {
  ChatRequest chat;
  // In place of messages: a prompt that goes to the model as it is.
  std::optional<std::string> raw;
  // "load" or "unload": nothing is asked but that the model be there or not; "": an answer.
  std::string load;
};

FieldTable OllamaChatFields();
FieldTable OllamaGenerateFields();
FieldTable OllamaOptions();

ApiResult<OllamaRequest> ParseOllamaChat(ByteSpan body, const sampling::Parameters& defaults = {});
ApiResult<OllamaRequest> ParseOllamaGenerate(ByteSpan body,
                                             const sampling::Parameters& defaults = {});
// POST /api/show: the model that is asked about, as `model` or, in older clients, `name`.
ApiResult<std::string> ParseOllamaShow(ByteSpan body);

}  // namespace weft::api
