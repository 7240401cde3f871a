// POST /v1/chat/completions: the request body, parsed and validated. The errors are OpenAI's: a
// message that names the field, its value and what was expected, the field as `param`.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_form.h"
#include "api/api_error.h"
#include "api/tool_choice.h"
#include "base/bytes.h"
#include "sampling/draw.h"

namespace weft::api {

struct ChatRequest {
  std::string model;            // "": the one that is served
  boost::json::array messages;  // validated: roles and contents; content parts joined to text
  boost::json::object template_kwargs;  // chat_template_kwargs
  boost::json::array tools;             // for the template; empty with tool_choice "none"
  ToolChoice tool_choice;
  std::optional<uint32_t> max_tokens;  // max_completion_tokens or max_tokens
  sampling::Parameters sampling;
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  bool ignore_eos = false;     // go on after an end token (as other servers name it; for measuring)
  bool parses_calls = false;   // what the answer calls is told as such
  bool ends_with_call = false;                  // parallel_tool_calls: false
  std::string reasoning_effort;                 // "": not said
  std::optional<bool> enable_thinking;          // for the template, as the effort is
  std::optional<uint32_t> max_thinking_tokens;  // then thoughts are ended
  bool splits_thinking = true;                  // thoughts come as reasoning_content
  bool shows_thinking = true;                   // include_reasoning
  std::string keep;                // a name for what the system messages come to; "": none
  std::string cache_key;           // prompt_cache_key: the same, while there is room; "": none
  std::string cache_salt;          // chats with another one share nothing that is computed
  std::optional<AnswerForm> form;  // not compiled yet
  uint32_t choices = 1;            // n
  bool logprobs = false;
  uint32_t top_logprobs = 0;
};

// Why a prefix cannot be kept under this name: 1 to 64 letters, digits and any of -._ it is.
std::optional<ApiError> CheckPrefixName(std::string_view name);

// Depth at most 64, one JSON object. Fields that would change the answer are refused by name where
// weft cannot follow them, and so are those that nobody knows (request_fields.h).
ApiResult<ChatRequest> ParseChatRequest(ByteSpan body, const sampling::Parameters& defaults = {});

}  // namespace weft::api
