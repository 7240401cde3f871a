// What weft does with each field of Anthropic's Messages API, its beta included (npm package
// @anthropic-ai/sdk 1.14.0, and what earlier versions have).
#include "api/anthropic_request.h"

namespace weft::api {
namespace {

constexpr RequestField kMessageFields[] = {
    {"model", "A", Handling::kDone, "", ""},
    {"messages", "A", Handling::kDone, "", ""},
    {"max_tokens", "A", Handling::kDone, "", ""},
    {"system", "A", Handling::kDone, "", ""},
    {"stop_sequences", "A", Handling::kDone, "", ""},
    {"stream", "A", Handling::kDone, "", ""},
    {"temperature", "A", Handling::kDone, "", ""},
    {"top_p", "A", Handling::kDone, "", ""},
    {"top_k", "A", Handling::kDone, "", ""},
    {"tools", "A", Handling::kDone, "", ""},
    {"tool_choice", "A", Handling::kDone, "", ""},
    {"thinking", "A", Handling::kDone, "", ""},
    {"output_config", "A", Handling::kDone, "", ""},
    {"output_format", "A", Handling::kDone, "", ""},
    {"context_management", "A", Handling::kDone, "", ""},
    {"service_tier", "A", Handling::kDone, "\"auto\", \"standard_only\"", ""},
    {"speed", "A", Handling::kDone, "\"standard\"", ""},
    {"metadata", "A", Handling::kIgnored, "", "who asks is told by the key and the address"},
    {"cache_control", "A", Handling::kIgnored, "",
     "prefixes that are held are used whether they are marked or not"},
    {"diagnostics", "A", Handling::kIgnored, "", "'usage' says what was held"},
    {"inference_geo", "A", Handling::kRefused, "", "it is computed where your devices are"},
    {"container", "A", Handling::kRefused, "", "nothing runs code here"},
    {"mcp_servers", "A", Handling::kRefused, "[]", "the client connects to such servers itself"},
    {"compaction", "A", Handling::kRefused, "", "the client makes conversations shorter itself"},
    {"thread", "A", Handling::kRefused, "", "send the whole conversation in 'messages'"},
    {"fallbacks", "A", Handling::kRefused, "[]", "there is one model"},
    {"fallback_credit_token", "A", Handling::kRefused, "", "there is one model"},
    {"billing_policy", "A", Handling::kRefused, "", "nothing is billed"},
};

}  // namespace

FieldTable AnthropicFields() {
  return {kMessageFields, "docs/anthropic.md"};
}

}  // namespace weft::api
