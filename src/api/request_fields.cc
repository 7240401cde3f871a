#include "api/request_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr RequestField kFields[] = {
    {"messages", "OVSLT", Handling::kDone, "", ""},
    {"model", "OVSLT", Handling::kDone, "", ""},
    {"frequency_penalty", "OVSLT", Handling::kDone, "", ""},
    {"presence_penalty", "OVSLT", Handling::kDone, "", ""},
    {"logit_bias", "OVSL", Handling::kDone, "", ""},
    {"logprobs", "OVSLT", Handling::kDone, "", ""},
    {"top_logprobs", "OVSLT", Handling::kDone, "", ""},
    {"max_tokens", "OVSLT", Handling::kDone, "", ""},
    {"max_completion_tokens", "OVSLT", Handling::kDone, "", ""},
    {"seed", "OVSLT", Handling::kDone, "", ""},
    {"stop", "OVSLT", Handling::kDone, "", ""},
    {"stream", "OVSLT", Handling::kDone, "", ""},
    {"stream_options", "OVSLT", Handling::kDone, "", ""},
    {"temperature", "OVSLT", Handling::kDone, "", ""},
    {"top_p", "OVSLT", Handling::kDone, "", ""},
    {"top_k", "VSL", Handling::kDone, "", ""},
    {"min_p", "VSL", Handling::kDone, "", ""},
    {"repetition_penalty", "VS", Handling::kDone, "", ""},
    {"ignore_eos", "VSL", Handling::kDone, "", ""},
    {"cache_salt", "VS", Handling::kDone, "", ""},
    {"keep", "W", Handling::kDone, "", ""},
    {"tools", "OVSLT", Handling::kDone, "", ""},
    {"chat_template_kwargs", "VSL", Handling::kDone, "", ""},
    {"n", "OVSLT", Handling::kDone, "", ""},
    {"tool_choice", "OVSLT", Handling::kDone, "", ""},
    {"response_format", "OVSLT", Handling::kDone, "", ""},
    {"parallel_tool_calls", "OVSL", Handling::kDone, "", ""},
    {"parse_tool_calls", "L", Handling::kDone, "", ""},
    {"reasoning_effort", "OVSL", Handling::kDone, "", ""},
    {"enable_thinking", "W", Handling::kDone, "", ""},
    {"max_thinking_tokens", "W", Handling::kDone, "", ""},
    {"thinking_token_budget", "V", Handling::kDone, "", ""},
    {"include_reasoning", "V", Handling::kDone, "", ""},
    {"separate_reasoning", "S", Handling::kDone, "", ""},
    {"reasoning_format", "L", Handling::kDone, "\"none\", \"auto\", \"deepseek\"", ""},
    {"modalities", "O", Handling::kDone, "[\"text\"]", ""},
    {"service_tier", "O", Handling::kDone, "\"auto\", \"default\"", ""},
    {"store", "O", Handling::kIgnored, "", "chats are not kept; those of /v1/responses are"},
    {"user", "OVS", Handling::kIgnored, "", "who asks is told by the key and the address"},
    {"safety_identifier", "O", Handling::kIgnored, "",
     "who asks is told by the key and the address"},
    {"metadata", "O", Handling::kIgnored, "", "it labels chats that are kept, and none are"},
    {"prompt_cache_key", "O", Handling::kDone, "", ""},
    {"prompt_cache_retention", "O", Handling::kIgnored, "",
     "prefixes that are held are used whatever they are called"},
    {"prompt_cache_options", "O", Handling::kIgnored, "",
     "prefixes that are held are used whatever they are called"},
    {"audio", "O", Handling::kRefused, "", "answers are text"},
    {"function_call", "O", Handling::kRefused, "", "use 'tools' and 'tool_choice'"},
    {"functions", "O", Handling::kRefused, "", "use 'tools'"},
    {"moderation", "O", Handling::kRefused, "", "nothing is moderated"},
    {"prediction", "O", Handling::kRefused, "", "leave it out"},
    {"verbosity", "O", Handling::kRefused, "\"medium\"", "say it in a message"},
    {"web_search_options", "O", Handling::kRefused, "", "nothing is searched"},
    {"structured_outputs", "V", Handling::kDone, "", ""},
    {"guided_json", "V", Handling::kRefused, "", "use 'structured_outputs' with 'json'"},
    {"guided_regex", "V", Handling::kRefused, "", "use 'structured_outputs' with 'regex'"},
    {"guided_choice", "V", Handling::kRefused, "", "use 'structured_outputs' with 'choice'"},
    {"guided_grammar", "V", Handling::kRefused, "", "use 'structured_outputs' with 'grammar'"},
    {"structural_tag", "V", Handling::kRefused, "", "use 'structured_outputs'"},
    {"regex", "S", Handling::kRefused, "", "use 'structured_outputs' with 'regex'"},
    {"ebnf", "S", Handling::kRefused, "", "use 'grammar'"},
    {"json_schema", "L", Handling::kRefused, "", "use 'response_format'"},
    {"grammar", "L", Handling::kDone, "", ""},
    {"guided_decoding_backend", "V", Handling::kIgnored, "", "there is one"},
    {"guided_whitespace_pattern", "V", Handling::kRefused, "",
     "white space is as docs/structured-output.md says"},
    {"grammar_lazy", "L", Handling::kRefused, "false", "a grammar is for the whole answer"},
    {"grammar_triggers", "L", Handling::kRefused, "[]", "a grammar is for the whole answer"},
    {"preserved_tokens", "L", Handling::kIgnored, "",
     "it counts only with tools that the server reads"},
    {"best_of", "V", Handling::kRefused, "1", "use 'n'"},
    {"n_cmpl", "L", Handling::kRefused, "1", "use 'n'"},
    {"use_beam_search", "V", Handling::kRefused, "false", "weft draws one token after another"},
    {"length_penalty", "V", Handling::kIgnored, "",
     "it counts only in beam search, which is refused"},
    {"min_tokens", "VS", Handling::kRefused, "0", "leave it out"},
    {"stop_token_ids", "VS", Handling::kRefused, "[]", "use 'stop'"},
    {"stop_regex", "S", Handling::kRefused, "[], \"\"", "use 'stop'"},
    {"allowed_token_ids", "V", Handling::kRefused, "", "use 'logit_bias'"},
    {"bad_words", "V", Handling::kRefused, "[]", "use 'logit_bias'"},
    {"logits_processors", "V", Handling::kRefused, "[]", "no code of a client runs here"},
    {"custom_logit_processor", "S", Handling::kRefused, "", "no code of a client runs here"},
    {"custom_params", "S", Handling::kRefused, "", "no code of a client runs here"},
    {"repetition_detection", "V", Handling::kRefused, "", "use 'repetition_penalty'"},
    {"repeat_penalty", "L", Handling::kRefused, "1", "use 'repetition_penalty'"},
    {"repeat_last_n", "L", Handling::kRefused, "-1",
     "penalties are for all tokens of a conversation"},
    {"typical_p", "L", Handling::kRefused, "1", "use 'top_p' or 'min_p'"},
    {"top_n_sigma", "L", Handling::kRefused, "-1, 0", "use 'min_p'"},
    {"xtc_probability", "L", Handling::kRefused, "0", "leave it out"},
    {"xtc_threshold", "L", Handling::kIgnored, "",
     "it counts only with 'xtc_probability', which is refused"},
    {"dynatemp_range", "L", Handling::kRefused, "0", "use 'temperature'"},
    {"dynatemp_exponent", "L", Handling::kIgnored, "",
     "it counts only with 'dynatemp_range', which is refused"},
    {"mirostat", "L", Handling::kRefused, "0", "use 'top_p' or 'min_p'"},
    {"mirostat_tau", "L", Handling::kIgnored, "",
     "it counts only with 'mirostat', which is refused"},
    {"mirostat_eta", "L", Handling::kIgnored, "",
     "it counts only with 'mirostat', which is refused"},
    {"dry_multiplier", "L", Handling::kRefused, "0", "use 'repetition_penalty'"},
    {"dry_base", "L", Handling::kIgnored, "",
     "it counts only with 'dry_multiplier', which is refused"},
    {"dry_allowed_length", "L", Handling::kIgnored, "",
     "it counts only with 'dry_multiplier', which is refused"},
    {"dry_penalty_last_n", "L", Handling::kIgnored, "",
     "it counts only with 'dry_multiplier', which is refused"},
    {"dry_sequence_breakers", "L", Handling::kIgnored, "",
     "it counts only with 'dry_multiplier', which is refused"},
    {"adaptive_target", "L", Handling::kRefused, "-1", "leave it out"},
    {"adaptive_decay", "L", Handling::kIgnored, "",
     "it counts only with 'adaptive_target', which is refused"},
    {"min_keep", "L", Handling::kRefused, "0, 1", "leave it out"},
    {"samplers", "L", Handling::kRefused, "", "their order is fixed (docs/api.md)"},
    {"echo", "V", Handling::kRefused, "false", "leave it out"},
    {"include_stop_str_in_output", "V", Handling::kRefused, "false",
     "stop strings are never part of the text"},
    {"no_stop_trim", "S", Handling::kRefused, "false", "stop strings are never part of the text"},
    {"skip_special_tokens", "VS", Handling::kRefused, "true",
     "special tokens are never part of the text"},
    {"spaces_between_special_tokens", "V", Handling::kIgnored, "",
     "special tokens are not part of the text"},
    {"n_predict", "L", Handling::kRefused, "-1", "use 'max_tokens'"},
    {"n_indent", "L", Handling::kRefused, "0", "leave it out"},
    {"t_max_predict_ms", "L", Handling::kRefused, "-1, 0", "use 'max_tokens'"},
    {"t_max_prompt_ms", "L", Handling::kRefused, "-1, 0", "leave it out"},
    {"add_generation_prompt", "VL", Handling::kRefused, "true", "the model always answers"},
    {"continue_final_message", "VSL", Handling::kRefused, "false", "leave it out"},
    {"add_special_tokens", "V", Handling::kRefused, "false",
     "the chat template says which there are"},
    {"documents", "V", Handling::kRefused, "[]", "put them into 'chat_template_kwargs'"},
    {"chat_template", "V", Handling::kRefused, "",
     "the package's own are used; 'chat_template_kwargs.chat_template' names one of them"},
    {"truncate_prompt_tokens", "V", Handling::kRefused, "", "a prompt is taken whole or refused"},
    {"truncation_side", "V", Handling::kIgnored, "", "prompts are not cut"},
    {"prompt", "L", Handling::kRefused, "", "use 'messages'"},
    {"input_ids", "S", Handling::kRefused, "", "use 'messages'"},
    {"tool_prompt", "T", Handling::kRefused, "", "the chat template says how tools are told"},
    {"task", "S", Handling::kRefused, "", "say it in a message"},
    {"lora_path", "S", Handling::kRefused, "", "there are no adapters"},
    {"lora", "L", Handling::kRefused, "[]", "there are no adapters"},
    {"session_id", "S", Handling::kRefused, "", "send the whole conversation in 'messages'"},
    {"session_params", "S", Handling::kRefused, "", "send the whole conversation in 'messages'"},
    {"media_io_kwargs", "V", Handling::kIgnored, "",
     "it is about pictures and sound, which messages cannot have"},
    {"mm_processor_kwargs", "V", Handling::kIgnored, "",
     "it is about pictures and sound, which messages cannot have"},
    {"max_dynamic_patch", "S", Handling::kIgnored, "",
     "it is about pictures and sound, which messages cannot have"},
    {"min_dynamic_patch", "S", Handling::kIgnored, "",
     "it is about pictures and sound, which messages cannot have"},
    {"images_config", "S", Handling::kIgnored, "",
     "it is about pictures and sound, which messages cannot have"},
    {"use_audio_in_video", "S", Handling::kIgnored, "",
     "it is about pictures and sound, which messages cannot have"},
    {"stream_reasoning", "S", Handling::kRefused, "true", "thoughts are streamed as the rest is"},
    {"reasoning", "S", Handling::kRefused, "",
     "a model that can be told so takes it in 'chat_template_kwargs'"},
    {"thinking_forced_open", "L", Handling::kRefused, "false", "leave it out"},
    {"reasoning_budget_tokens", "L", Handling::kRefused, "-1", "use 'max_thinking_tokens'"},
    {"reasoning_budget_start_tag", "L", Handling::kIgnored, "",
     "it counts only with 'reasoning_budget_tokens', which is refused"},
    {"reasoning_budget_end_tag", "L", Handling::kIgnored, "",
     "it counts only with 'reasoning_budget_tokens', which is refused"},
    {"reasoning_budget_message", "L", Handling::kIgnored, "",
     "it counts only with 'reasoning_budget_tokens', which is refused"},
    {"reasoning_budget_arm_immediately", "L", Handling::kIgnored, "",
     "it counts only with 'reasoning_budget_tokens', which is refused"},
    {"chat_format", "L", Handling::kRefused, "", "the chat template says how answers are read"},
    {"chat_parser", "L", Handling::kRefused, "", "the chat template says how answers are read"},
    {"prompt_logprobs", "V", Handling::kRefused, "", "only tokens of the answer have them"},
    {"n_probs", "L", Handling::kRefused, "0", "use 'logprobs' and 'top_logprobs'"},
    {"post_sampling_probs", "L", Handling::kRefused, "false", "logprobs are those before sampling"},
    {"return_tokens_as_token_ids", "V", Handling::kRefused, "false",
     "tokens have no ids in answers"},
    {"return_token_ids", "VS", Handling::kRefused, "false", "tokens have no ids in answers"},
    {"return_prompt_token_ids", "S", Handling::kRefused, "false", "tokens have no ids in answers"},
    {"return_tokens", "L", Handling::kRefused, "false", "tokens have no ids in answers"},
    {"return_prompt_text", "V", Handling::kRefused, "false", "prompts are not repeated"},
    {"return_token_offsets", "V", Handling::kIgnored, "",
     "vLLM follows it in its /render routes alone"},
    {"return_assistant_tokens_mask", "V", Handling::kIgnored, "",
     "vLLM follows it in its /render routes alone"},
    {"return_hidden_states", "S", Handling::kRefused, "false", "answers do not have that"},
    {"return_routed_experts", "S", Handling::kRefused, "false", "answers do not have that"},
    {"return_cached_tokens_details", "S", Handling::kRefused, "false", "answers do not have that"},
    {"return_meta_info", "S", Handling::kRefused, "false", "answers do not have that"},
    {"routed_experts_start_len", "S", Handling::kIgnored, "",
     "it counts only with 'return_routed_experts', which is refused"},
    {"return_progress", "L", Handling::kRefused, "false",
     "streams tell it in comments (docs/protocol.md)"},
    {"timings_per_token", "L", Handling::kRefused, "false", "answers do not have that"},
    {"response_fields", "L", Handling::kRefused, "[]", "answers are whole"},
    {"extra_key", "S", Handling::kRefused, "", "use 'cache_salt'"},
    {"n_cache_reuse", "L", Handling::kRefused, "0",
     "keys and values are never moved to other positions"},
    {"cache_prompt", "L", Handling::kIgnored, "", "a prefix that is held gives the same answer"},
    {"n_keep", "L", Handling::kIgnored, "",
     "a context that is full ends the answer; nothing is shifted"},
    {"n_discard", "L", Handling::kIgnored, "",
     "a context that is full ends the answer; nothing is shifted"},
    {"priority", "VS", Handling::kIgnored, "", "clients take turns; the answer is the same"},
    {"request_id", "V", Handling::kIgnored, "", "answers have ids of their own"},
    {"rid", "S", Handling::kIgnored, "", "answers have ids of their own"},
    {"kv_transfer_params", "V", Handling::kRefused, "", "leave it out"},
    {"ec_transfer_params", "V", Handling::kRefused, "", "leave it out"},
    {"vllm_xargs", "V", Handling::kRefused, "", "leave it out"},
    {"id_slot", "L", Handling::kIgnored, "", "the server says where a request is computed"},
    {"backend_sampling", "L", Handling::kIgnored, "",
     "the server says where a token is chosen; it is the same one"},
    {"bootstrap_host", "S", Handling::kIgnored, "", "the server says where a request is computed"},
    {"bootstrap_port", "S", Handling::kIgnored, "", "the server says where a request is computed"},
    {"bootstrap_room", "S", Handling::kIgnored, "", "the server says where a request is computed"},
    {"routed_dp_rank", "S", Handling::kIgnored, "", "the server says where a request is computed"},
    {"disagg_prefill_dp_rank", "S", Handling::kIgnored, "",
     "the server says where a request is computed"},
    {"data_parallel_rank", "S", Handling::kIgnored, "",
     "the server says where a request is computed"},
    {"ngram_corpus_id", "S", Handling::kIgnored, "", "guesses ahead change no token"},
    {"speculative.n_min", "L", Handling::kIgnored, "", "guesses ahead change no token"},
    {"speculative.n_max", "L", Handling::kIgnored, "", "guesses ahead change no token"},
    {"speculative.p_min", "L", Handling::kIgnored, "", "guesses ahead change no token"},
    {"speculative.type", "L", Handling::kIgnored, "", "guesses ahead change no token"},
    {"speculative.ngram_size_n", "L", Handling::kIgnored, "", "guesses ahead change no token"},
    {"speculative.ngram_size_m", "L", Handling::kIgnored, "", "guesses ahead change no token"},
    {"speculative.ngram_m_hits", "L", Handling::kIgnored, "", "guesses ahead change no token"},
};

bool AreEqual(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
  return a == b;
}

bool IsOneOf(const json::value& value, std::string_view values) {
  const json::value list = json::parse("[" + std::string(values) + "]");
  return std::any_of(list.as_array().begin(), list.as_array().end(),
                     [&](const json::value& one) { return AreEqual(value, one); });
}

// llama.cpp's window counts for penalties alone, and its clients send it with every request.
bool HasPenalties(const json::object& request) {
  const auto is_set = [&](const char* name, double neutral) {
    const json::value* value = request.if_contains(name);
    return value != nullptr && !value->is_null() && !AreEqual(*value, neutral);
  };
  return is_set("presence_penalty", 0) || is_set("frequency_penalty", 0) ||
         is_set("repetition_penalty", 1) || is_set("repeat_penalty", 1);
}

std::optional<ApiError> Check(const RequestField& field, const std::string& name,
                              const json::value& value, const json::object& request) {
  if (field.handling == Handling::kIgnored || IsOneOf(value, field.neutral)) return std::nullopt;
  if (field.handling == Handling::kRefused) {
    if (field.name == "repeat_last_n" && !HasPenalties(request)) return std::nullopt;
    std::string message = "'" + name + "' (" + ServerNames(field.servers) + ") is " +
                          ShownValue(value) + ", which is not supported; " +
                          std::string(field.why) + ".";
    return RefuseField(name, std::move(message));
  }
  if (field.neutral.empty()) return std::nullopt;
  return RefuseField(name, "'" + name + "' is " + ShownValue(value) + "; weft supports " +
                               std::string(field.neutral) + " only" +
                               (field.why.empty() ? "" : ": " + std::string(field.why)) + ".");
}

}  // namespace

std::string ServerNames(std::string_view servers) {
  constexpr std::pair<char, const char*> kNames[] = {
      {'O', "OpenAI"}, {'V', "vLLM"}, {'S', "SGLang"},    {'L', "llama.cpp"},
      {'T', "TGI"},    {'W', "weft"}, {'A', "Anthropic"}, {'M', "Ollama"}};
  std::string names;
  for (const auto& [letter, name] : kNames) {
    if (servers.find(letter) == std::string_view::npos) continue;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

std::span<const RequestField> RequestFields() {
  return kFields;
}

std::optional<ApiError> RefuseFields(const json::object& request, const FieldTable& table) {
  for (const auto& [key, value] : request) {
    const std::string_view name(key.data(), key.size());
    const std::string shown = std::string(table.prefix) + std::string(name.substr(0, 100));
    const auto field = std::find_if(table.fields.begin(), table.fields.end(),
                                    [&](const RequestField& known) { return known.name == name; });
    if (field == table.fields.end()) {
      return RefuseField(shown, "'" + shown + "' is no field that weft knows; " +
                                    std::string(table.document) +
                                    " has all of them. It might change the answer, so it is not "
                                    "passed over.");
    }
    if (value.is_null()) continue;
    if (auto error = Check(*field, shown, value, request)) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> RefuseFields(const json::object& request) {
  return RefuseFields(request, {RequestFields(), "docs/api.md"});
}

std::string ShownValue(const json::value& value) {
  constexpr size_t kMaxBytes = 60;
  std::string text = json::serialize(value);
  if (text.size() <= kMaxBytes) return text;
  size_t end = kMaxBytes - 3;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace weft::api
