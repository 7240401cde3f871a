// What weft does with each field of OpenAI's Responses API (npm package openai 6.49.0), and fields
// of its own there.
#include "api/responses_request.h"

namespace weft::api {
namespace {

constexpr RequestField kFields[] = {
    {"input", "O", Handling::kDone, "", ""},
    {"model", "O", Handling::kDone, "", ""},
    {"instructions", "O", Handling::kDone, "", ""},
    {"max_output_tokens", "O", Handling::kDone, "", ""},
    {"temperature", "O", Handling::kDone, "", ""},
    {"top_p", "O", Handling::kDone, "", ""},
    {"top_logprobs", "O", Handling::kDone, "", ""},
    {"include", "O", Handling::kDone, "", ""},
    {"stream", "O", Handling::kDone, "", ""},
    {"store", "O", Handling::kDone, "", ""},
    {"previous_response_id", "O", Handling::kDone, "", ""},
    {"tools", "O", Handling::kDone, "", ""},
    {"tool_choice", "O", Handling::kDone, "", ""},
    {"parallel_tool_calls", "O", Handling::kDone, "", ""},
    {"text", "O", Handling::kDone, "", ""},
    {"reasoning", "O", Handling::kDone, "", ""},
    {"metadata", "O", Handling::kDone, "", ""},
    {"truncation", "O", Handling::kDone, "\"disabled\"",
     "a conversation is taken whole or refused"},
    {"background", "O", Handling::kDone, "false", "wait for the answer, or stream it"},
    {"service_tier", "O", Handling::kDone, "\"auto\", \"default\"", ""},
    {"frequency_penalty", "W", Handling::kDone, "", ""},
    {"presence_penalty", "W", Handling::kDone, "", ""},
    {"repetition_penalty", "W", Handling::kDone, "", ""},
    {"top_k", "W", Handling::kDone, "", ""},
    {"min_p", "W", Handling::kDone, "", ""},
    {"seed", "W", Handling::kDone, "", ""},
    {"logit_bias", "W", Handling::kDone, "", ""},
    {"stop", "W", Handling::kDone, "", ""},
    {"chat_template_kwargs", "W", Handling::kDone, "", ""},
    {"enable_thinking", "W", Handling::kDone, "", ""},
    {"max_thinking_tokens", "W", Handling::kDone, "", ""},
    {"cache_salt", "W", Handling::kDone, "", ""},
    {"user", "O", Handling::kIgnored, "", "who asks is told by the key and the address"},
    {"safety_identifier", "O", Handling::kIgnored, "",
     "who asks is told by the key and the address"},
    {"prompt_cache_key", "O", Handling::kDone, "", ""},
    {"prompt_cache_retention", "O", Handling::kIgnored, "",
     "prefixes that are held are used whatever they are called"},
    {"prompt_cache_options", "O", Handling::kIgnored, "",
     "prefixes that are held are used whatever they are called"},
    {"stream_options", "O", Handling::kIgnored, "", "lengths are not hidden"},
    {"max_tool_calls", "O", Handling::kIgnored, "",
     "it counts calls of hosted tools, which are refused"},
    {"conversation", "O", Handling::kRefused, "", "use 'previous_response_id'"},
    {"prompt", "O", Handling::kRefused, "", "send the text itself"},
    {"context_management", "O", Handling::kRefused, "[]",
     "a conversation is taken whole or refused"},
    {"moderation", "O", Handling::kRefused, "", "nothing is moderated"},
};

}  // namespace

FieldTable ResponsesFields() {
  return {kFields, "docs/responses.md"};
}

}  // namespace weft::api
