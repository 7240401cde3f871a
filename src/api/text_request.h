// POST /v1/completions: a text or tokens that the model goes on with, as OpenAI's older endpoint
// has it. docs/api.md shows every field.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "api/openai_request.h"
#include "api/request_fields.h"
#include "base/bytes.h"

namespace weft::api {

using TextPrompt = std::variant<std::string, std::vector<int32_t>>;

struct TextRequest {
  ChatRequest chat;  // without messages
  TextPrompt prompt;
};

// Those that are not as they are in chats; and all.
std::span<const RequestField> TextFields();
FieldTable AllTextFields();

ApiResult<TextRequest> ParseTextRequest(ByteSpan body, const sampling::Parameters& defaults = {});

}  // namespace weft::api
