// POST /v1/messages and /v1/messages/count_tokens, Anthropic's: the body, parsed and validated, as
// the chat that it asks for. Errors name the field as api_error.h has it; docs/anthropic.md shows
// every field.
#pragma once

#include "api/openai_request.h"
#include "api/request_fields.h"
#include "base/bytes.h"

namespace weft::api {

FieldTable AnthropicFields();

// The code of the refusal of 'thread', by which Anthropic's client knows to send the whole
// conversation in its place.
inline constexpr const char* kNoThreads = "thread_unsupported_request";

// `counts_only`: its tokens are counted and it is not answered, so that 'max_tokens' may be absent.
ApiResult<ChatRequest> ParseAnthropicRequest(ByteSpan body,
                                             const sampling::Parameters& defaults = {},
                                             bool counts_only = false);

}  // namespace weft::api
