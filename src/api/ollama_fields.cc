// What weft does with each field of Ollama's requests (its documentation of 2026 and the npm
// package ollama 0.6.4).
#include "api/ollama_request.h"

namespace weft::api {
namespace {

constexpr std::string_view kMemory = "the server says where and how a request is computed";

constexpr RequestField kChat[] = {
    {"model", "M", Handling::kDone, "", ""},
    {"messages", "M", Handling::kDone, "", ""},
    {"tools", "M", Handling::kDone, "", ""},
    {"tool_choice", "M", Handling::kDone, "", ""},
    {"format", "M", Handling::kDone, "", ""},
    {"options", "M", Handling::kDone, "", ""},
    {"stream", "M", Handling::kDone, "", ""},
    {"think", "M", Handling::kDone, "", ""},
    {"logprobs", "M", Handling::kDone, "", ""},
    {"top_logprobs", "M", Handling::kDone, "", ""},
    {"temperature", "M", Handling::kDone, "", ""},
    {"top_p", "M", Handling::kDone, "", ""},
    {"max_output_tokens", "M", Handling::kDone, "", ""},
    {"keep_alive", "M", Handling::kIgnored, "", "the model stays where it is"},
    {"truncate", "M", Handling::kRefused, "false", "a prompt is taken whole or refused"},
    {"shift", "M", Handling::kRefused, "false", "a context that is full ends the answer"},
};

constexpr RequestField kGenerate[] = {
    {"model", "M", Handling::kDone, "", ""},
    {"prompt", "M", Handling::kDone, "", ""},
    {"system", "M", Handling::kDone, "", ""},
    {"raw", "M", Handling::kDone, "", ""},
    {"format", "M", Handling::kDone, "", ""},
    {"options", "M", Handling::kDone, "", ""},
    {"stream", "M", Handling::kDone, "", ""},
    {"think", "M", Handling::kDone, "", ""},
    {"logprobs", "M", Handling::kDone, "", ""},
    {"top_logprobs", "M", Handling::kDone, "", ""},
    {"temperature", "M", Handling::kDone, "", ""},
    {"top_p", "M", Handling::kDone, "", ""},
    {"max_output_tokens", "M", Handling::kDone, "", ""},
    {"keep_alive", "M", Handling::kIgnored, "", "the model stays where it is"},
    {"images", "M", Handling::kRefused, "[]", "this model reads text"},
    {"suffix", "M", Handling::kRefused, "\"\"", "nothing is filled in"},
    {"template", "M", Handling::kRefused, "\"\"", "the package's own is used; see 'raw'"},
    {"context", "M", Handling::kRefused, "[]", "send the conversation to /api/chat"},
    {"truncate", "M", Handling::kRefused, "false", "a prompt is taken whole or refused"},
    {"shift", "M", Handling::kRefused, "false", "a context that is full ends the answer"},
    {"width", "M", Handling::kRefused, "0", "this model makes text"},
    {"height", "M", Handling::kRefused, "0", "this model makes text"},
    {"steps", "M", Handling::kRefused, "0", "this model makes text"},
};

constexpr RequestField kOptions[] = {
    {"num_predict", "M", Handling::kDone, "", ""},
    {"temperature", "M", Handling::kDone, "", ""},
    {"top_k", "M", Handling::kDone, "", ""},
    {"top_p", "M", Handling::kDone, "", ""},
    {"min_p", "M", Handling::kDone, "", ""},
    {"seed", "M", Handling::kDone, "", ""},
    {"stop", "M", Handling::kDone, "", ""},
    {"repeat_penalty", "M", Handling::kDone, "", ""},
    {"presence_penalty", "M", Handling::kDone, "", ""},
    {"frequency_penalty", "M", Handling::kDone, "", ""},
    {"repeat_last_n", "M", Handling::kRefused, "-1",
     "penalties are for all tokens of a conversation"},
    {"penalize_newline", "M", Handling::kRefused, "true", "penalties are for all tokens"},
    {"typical_p", "M", Handling::kRefused, "1, 0", "use 'top_p' or 'min_p'"},
    {"tfs_z", "M", Handling::kRefused, "1", "use 'top_p' or 'min_p'"},
    {"mirostat", "M", Handling::kRefused, "0", "use 'top_p' or 'min_p'"},
    {"mirostat_tau", "M", Handling::kIgnored, "",
     "it counts only with 'mirostat', which is refused"},
    {"mirostat_eta", "M", Handling::kIgnored, "",
     "it counts only with 'mirostat', which is refused"},
    {"num_ctx", "M", Handling::kIgnored, "", "it is what 'weft serve --context' says"},
    {"num_keep", "M", Handling::kIgnored, "", "nothing of a context is dropped"},
    {"num_batch", "M", Handling::kIgnored, "", kMemory},
    {"num_gpu", "M", Handling::kIgnored, "", kMemory},
    {"main_gpu", "M", Handling::kIgnored, "", kMemory},
    {"num_thread", "M", Handling::kIgnored, "", kMemory},
    {"low_vram", "M", Handling::kIgnored, "", kMemory},
    {"f16_kv", "M", Handling::kIgnored, "", kMemory},
    {"use_mmap", "M", Handling::kIgnored, "", kMemory},
    {"use_mlock", "M", Handling::kIgnored, "", kMemory},
    {"numa", "M", Handling::kIgnored, "", kMemory},
    {"logits_all", "M", Handling::kIgnored, "", kMemory},
    {"vocab_only", "M", Handling::kRefused, "false", "the model answers"},
    {"embedding_only", "M", Handling::kRefused, "false", "the model answers"},
};

}  // namespace

FieldTable OllamaChatFields() {
  return {kChat, "docs/ollama.md"};
}

FieldTable OllamaGenerateFields() {
  return {kGenerate, "docs/ollama.md"};
}

FieldTable OllamaOptions() {
  return {kOptions, "docs/ollama.md", "options."};
}

}  // namespace weft::api
