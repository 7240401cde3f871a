// The items of OpenAI's Responses API: what a request sends and an answer consists of, and the
// messages of a chat that they come to.
//
//   {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
//   {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "..."}]}
//   {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
//   {"type": "function_call_output", "call_id": "call_1", "output": "5"}
//   {"type": "item_reference", "id": "msg_1"}
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "api/api_error.h"

namespace weft::api {

// `input` as items in full, each with a type and an id: a text is a message of the user. Items of
// other types, and parts of messages that are no text, are refused with their place as `param`.
ApiResult<boost::json::array> ReadItems(const boost::json::value& input);

// The conversation as chat templates want it: what the assistant thought, said and called in a row
// is one message. `instructions` is a system message in front, together with system messages that
// the items begin with. REQUIRES: items as ReadItems gives them, without references.
boost::json::array MessagesOf(const boost::json::array& items, const std::string& instructions);

}  // namespace weft::api
