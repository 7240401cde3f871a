// Anthropic's conversations as messages of a chat: text, thoughts, calls and what tools said.
//
//   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "21"},
//                                {"type": "text", "text": "And in Bern?"}]}
//
// becomes {"role": "tool", "tool_call_id": "a", "content": "21"} and a message of the user.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>

#include "api/api_error.h"

namespace weft::api {

// `system` and `messages` may be nullptr. Neighbours of one role are one message, as there.
std::optional<ApiError> ReadAnthropicMessages(const boost::json::value* system,
                                              const boost::json::value* messages,
                                              boost::json::array* out);

}  // namespace weft::api
