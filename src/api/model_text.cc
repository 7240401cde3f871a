#include "api/model_text.h"

#include <algorithm>
#include <boost/json/parse.hpp>

#include "api/vocabulary_trie.h"
#include "text/jinja/chat_template_files.h"

namespace weft::api {
namespace json = boost::json;

namespace {

using Files = std::map<std::string, std::string>;

// The JSON object in a file; empty when the file is not there.
Result<json::object> ReadObject(const Files& files, const std::string& name) {
  const auto file = files.find(name);
  if (file == files.end()) return json::object();
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 64;
  const json::value value = json::parse(file->second, error, {}, options);
  if (error || !value.is_object()) {
    return Error(ErrorCode::kInvalidData, "'" + name + "' is not a JSON object" +
                                              (error ? ": " + error.message() : "") + ".");
  }
  return value.as_object();
}

// A token's text: "..." or {"content": "..."}.
std::string TokenField(const json::object& config, const char* name) {
  const json::value* value = config.if_contains(name);
  if (value != nullptr && value->is_object()) value = value->as_object().if_contains("content");
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

// An id, or an array of ids.
void AddIds(const json::object& config, const char* name, std::vector<int32_t>* ids) {
  const json::value* value = config.if_contains(name);
  if (value == nullptr) return;
  const json::array list = value->is_array() ? value->as_array() : json::array{*value};
  for (const json::value& item : list) {
    if (item.is_int64() && item.as_int64() >= 0 && item.as_int64() <= INT32_MAX) {
      ids->push_back(static_cast<int32_t>(item.as_int64()));
    }
  }
}

// Recommendations of generation_config.json that are in range; others are ignored.
sampling::Parameters RecommendedSampling(const json::object& config) {
  sampling::Parameters sampling;
  const json::value* sample = config.if_contains("do_sample");
  if (sample != nullptr && sample->is_bool() && !sample->as_bool()) sampling.temperature = 0;
  const auto number = [&](const char* name, sampling::Range range, float* out) {
    const json::value* value = config.if_contains(name);
    if (value == nullptr || !value->is_number()) return;
    const auto given = value->to_number<double>();
    if (given >= range.lowest && given <= range.highest) *out = static_cast<float>(given);
  };
  number("temperature", sampling::kTemperatureRange, &sampling.temperature);
  number("top_p", sampling::kTopPRange, &sampling.top_p);
  number("min_p", sampling::kMinPRange, &sampling.min_p);
  number("repetition_penalty", sampling::kRepetitionPenaltyRange, &sampling.repetition_penalty);
  float top_k = 0;
  number("top_k", {0, sampling::kMaxTopK}, &top_k);
  sampling.top_k = static_cast<int32_t>(top_k);
  return sampling;
}

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

// What people and tools wrote: everything of a request but what the assistant wrote, and the roles.
bool IsQuoted(std::string_view variable, const json::value& item, std::string_view field) {
  if (variable.ends_with("_token")) return false;
  if (variable != "messages" || !item.is_object()) return true;
  const json::value* role = item.as_object().if_contains("role");
  return field != "role" && (role == nullptr || *role != "assistant");
}

// Templates that were not written for content that is null take "", and those that go over a
// call's arguments {}.
json::array Completed(json::array messages) {
  for (json::value& message : messages) {
    json::object& object = message.as_object();
    if (const json::value* content = object.if_contains("content"); !content || content->is_null())
      object["content"] = "";
    json::value* calls = object.if_contains("tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (json::value& call : calls->as_array()) {
      json::value* function = call.is_object() ? call.as_object().if_contains("function") : nullptr;
      if (function == nullptr || !function->is_object()) continue;
      json::value& arguments = function->as_object()["arguments"];
      if (!arguments.is_object()) arguments = json::object();
    }
  }
  return messages;
}

QuotedText Beginning(const QuotedText& text, size_t byte_count) {
  QuotedText beginning{text.text.substr(0, byte_count), {}};
  for (const TextRange& range : text.quoted) {
    if (range.begin >= byte_count) break;
    beginning.quoted.push_back({range.begin, std::min(range.end, byte_count)});
  }
  return beginning;
}

}  // namespace

Result<ModelTemplate> ModelTemplate::Load(const Files& files) {
  ModelTemplate made;
  ASSIGN_OR_RETURN(const json::object config, ReadObject(files, "tokenizer_config.json"));
  ASSIGN_OR_RETURN(const json::object map, ReadObject(files, "special_tokens_map.json"));
  for (const char* name : kSpecialTokens) {
    std::string token = TokenField(config, name);
    if (token.empty()) token = TokenField(map, name);
    if (!token.empty()) made.tokens[name] = std::move(token);
  }
  ASSIGN_OR_RETURN(const auto sources, ChatTemplateSources(files));
  for (const auto& [name, source] : sources) {
    auto parsed = ChatTemplate::Parse(source);
    if (!parsed.ok()) {
      return std::move(parsed).error().Context("While reading the chat template '" + name + "'");
    }
    made.named.emplace(name, std::move(*parsed));
  }
  return made;
}

const ChatTemplate* ModelTemplate::Choose(bool has_tools, const std::string& asked) const {
  const auto found = [&](const std::string& name) -> const ChatTemplate* {
    const auto entry = named.find(name);
    return entry == named.end() ? nullptr : &entry->second;
  };
  if (!asked.empty()) return found(asked);
  if (has_tools && found("tool_use") != nullptr) return found("tool_use");
  if (found("default") != nullptr) return found("default");
  return named.empty() ? nullptr : &named.begin()->second;
}

std::string ModelTemplate::Token(const std::string& name) const {
  const auto token = tokens.find(name);
  return token == tokens.end() ? std::string() : token->second;
}

Result<QuotedText> ModelTemplate::Render(json::object variables, const RenderOptions& options,
                                         const std::string& asked) const {
  const json::value* tools = variables.if_contains("tools");
  const ChatTemplate* chat = Choose(tools != nullptr && !tools->is_null(), asked);
  if (chat == nullptr) {
    return Error(ErrorCode::kNotFound, asked.empty()
                                           ? "The model has no chat template."
                                           : "The model has no chat template '" + asked + "'.");
  }
  variables.emplace("tools", nullptr);
  variables.emplace("documents", nullptr);
  for (const auto& [name, token] : tokens) variables.emplace(name, token);
  // Templates add them to other texts, so that a model without one has an empty one.
  variables.emplace("bos_token", "");
  variables.emplace("eos_token", "");
  return chat->Render(variables, options).Context("While rendering the chat template");
}

Result<ModelText> ModelText::Load(const Files& files) {
  const auto tokenizer_file = files.find("tokenizer.json");
  if (tokenizer_file == files.end()) {
    return Error(ErrorCode::kNotFound,
                 "The package has no tokenizer.json: without it text cannot become tokens.");
  }
  ASSIGN_OR_RETURN(
      Tokenizer tokenizer,
      Tokenizer::FromJson(AsBytes(tokenizer_file->second)).Context("While reading tokenizer.json"));
  ModelText text(std::move(tokenizer));
  ASSIGN_OR_RETURN(const json::object generation_config,
                   ReadObject(files, "generation_config.json"));
  ASSIGN_OR_RETURN(const json::object config, ReadObject(files, "config.json"));
  ASSIGN_OR_RETURN(text.template_, ModelTemplate::Load(files));
  text.default_sampling_ = RecommendedSampling(generation_config);
  AddIds(generation_config, "eos_token_id", &text.stop_ids_);
  AddIds(config, "eos_token_id", &text.stop_ids_);
  if (const auto id = text.tokenizer_.TokenId(text.template_.Token("eos_token")))
    text.stop_ids_.push_back(*id);
  std::sort(text.stop_ids_.begin(), text.stop_ids_.end());
  text.stop_ids_.erase(std::unique(text.stop_ids_.begin(), text.stop_ids_.end()),
                       text.stop_ids_.end());
  text.LearnFormat();
  return text;
}

std::shared_ptr<const grammar::TokenTrie> ModelText::LazyTrie::Get(const ModelText& text) {
  std::call_once(once_, [&] {
    std::span<const int32_t> shown;
    if (shows_markers_) shown = text.marker_ids_;
    trie_ = VocabularyTrie(text.tokenizer_, text.stop_ids_, shown);
  });
  return trie_;
}

Result<std::vector<int32_t>> ModelText::EncodeText(std::string_view text) const {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_.Encode(text, /*add_special_tokens=*/true));
  if (ids.empty())
    return Error(ErrorCode::kInvalidArgument, "The prompt is empty; give at least one token.");
  return ids;
}

Result<std::vector<int32_t>> ModelText::EncodeChat(const ChatRequest& request) const {
  if (template_.named.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "The model has no chat template, so that it cannot be told who says what; it is "
                 "no chat model, or its files lack chat_template.jinja.");
  }
  ASSIGN_OR_RETURN(const QuotedText prompt, RenderChat(request, request.messages, true));
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_.Encode(prompt));
  if (ids.empty()) return Error(ErrorCode::kInvalidArgument, "The rendered prompt is empty.");
  return ids;
}

Result<QuotedText> ModelText::RenderChat(const ChatRequest& request, const json::array& messages,
                                         bool opens_answer) const {
  json::object context = request.template_kwargs;
  if (request.reasoning_effort == "none") {
    context.emplace("enable_thinking", false);
  } else if (!request.reasoning_effort.empty()) {
    context.emplace("reasoning_effort", request.reasoning_effort);
  }
  if (request.enable_thinking) context.emplace("enable_thinking", *request.enable_thinking);
  for (const auto& [name, token] : template_.tokens) context.erase(name);
  context.erase("bos_token");  // whatever template_kwargs say
  context.erase("eos_token");
  std::string asked;
  if (const json::value* name = context.if_contains("chat_template"); name && name->is_string()) {
    asked = std::string(name->as_string());
    context.erase("chat_template");
  }
  context["messages"] = messages;
  if (!request.tools.empty()) context["tools"] = request.tools;
  context["add_generation_prompt"] = opens_answer;
  RenderOptions options;
  if (!control_tokens_in_text_) options.is_quoted = IsQuoted;
  auto prompt = template_.Render(context, options, asked);
  if (prompt.ok() || prompt.error().code() == ErrorCode::kInvalidArgument) return prompt;
  if (prompt.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kInvalidArgument,
                 "'chat_template_kwargs.chat_template' is '" + asked +
                     "', but the model has no chat template of that name.");
  }
  context["messages"] = Completed(messages);
  auto completed = template_.Render(std::move(context), options, asked);
  if (completed.ok()) return completed;
  // What a template does with a request is up to the request.
  return Error(ErrorCode::kInvalidArgument,
               "'messages' do not fit the model's chat template: " + prompt.error().ToString());
}

json::array OpeningOf(const ChatRequest& request) {
  json::array opening;
  for (const json::value& message : request.messages) {
    const json::value& role = message.as_object().at("role");
    if (role != "system" && role != "developer") break;
    opening.push_back(message);
  }
  return opening;
}

// Two conversations that differ in the user's next message show where it stands.
Result<std::vector<int32_t>> ModelText::EncodeOpening(const ChatRequest& request,
                                                      json::array messages) const {
  json::array other = messages;
  messages.push_back({{"role", "user"}, {"content", "."}});
  other.push_back({{"role", "user"}, {"content", "?"}});
  ASSIGN_OR_RETURN(const QuotedText one, RenderChat(request, messages, true));
  ASSIGN_OR_RETURN(const QuotedText two, RenderChat(request, other, true));
  const auto parted = std::ranges::mismatch(one.text, two.text).in1 - one.text.begin();
  ASSIGN_OR_RETURN(const auto whole, tokenizer_.Encode(one));
  ASSIGN_OR_RETURN(auto shared, tokenizer_.Encode(Beginning(one, static_cast<size_t>(parted))));
  shared.resize(static_cast<size_t>(std::ranges::mismatch(shared, whole).in1 - shared.begin()));
  if (!shared.empty()) return shared;
  return Error(ErrorCode::kInvalidArgument,
               "The model's chat template shows nothing in front of the user's message, so that "
               "there is nothing to keep.");
}

// Found by rendering the conversation with something left out, or put in another's place:
//
//   <system>Be brief.<user>Hi<assistant>Hello.<user>Why?<assistant>   the prompt
//   <system>Be brief.<user>.                                          behind "<user>": 1
//   <system>Be brief.<user>Hi<assistant>Hello.                        behind "Hello.": 2
//   <system>Be brief.<user>Hi<assistant>Hello.<user>Why?              behind "Why?": 3
//
// A prompt goes on behind 2 with another last message, and behind 3 with another answer, or with
// the same one without its thoughts. Where the tokens of the two texts part before the texts do,
// the position is where the tokens part.
std::vector<uint32_t> ModelText::SharedPositions(const ChatRequest& request,
                                                 const std::vector<int32_t>& ids) const {
  std::vector<uint32_t> positions;
  if (template_.named.empty()) return positions;
  const auto prompt = RenderChat(request, request.messages, true);
  if (!prompt.ok()) return positions;
  const QuotedText& rendered = prompt.value();
  const std::string& whole = rendered.text;
  // The tokens of the text that a rendering shares with the prompt.
  const auto add = [&](const json::array& messages) {
    const auto other = RenderChat(request, messages, false);
    if (!other.ok()) return;  // a template may demand a message of the user
    const auto parted = std::ranges::mismatch(whole, other.value().text).in1 - whole.begin();
    const auto shared = tokenizer_.Encode(Beginning(rendered, static_cast<size_t>(parted)));
    if (!shared.ok()) return;
    const auto at = std::ranges::mismatch(shared.value(), ids).in1 - shared.value().begin();
    if (at > 0 && static_cast<size_t>(at) < ids.size())
      positions.push_back(static_cast<uint32_t>(at));
  };
  json::array opening = OpeningOf(request);
  const size_t opening_and_question = opening.size() + 1;
  opening.push_back({{"role", "user"}, {"content", "."}});
  add(opening);
  if (request.messages.size() > opening_and_question)
    add(json::array(request.messages.begin(), request.messages.end() - 1));
  add(request.messages);
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

}  // namespace weft::api
