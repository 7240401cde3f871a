#include "api/model_text.h"

#include <algorithm>
#include <boost/json/parse.hpp>

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

// The template in tokenizer_config.json: a string, or the one named "default" of a list.
std::string TemplateField(const json::object& config) {
  const json::value* value = config.if_contains("chat_template");
  if (value != nullptr && value->is_string()) return std::string(value->as_string());
  if (value == nullptr || !value->is_array()) return {};
  for (const json::value& item : value->as_array()) {
    const json::object* entry = item.if_object();
    if (entry != nullptr && TokenField(*entry, "name") == "default") {
      return TokenField(*entry, "template");
    }
  }
  return {};
}

}  // namespace

Result<ModelTemplate> ModelTemplate::Load(const Files& files) {
  ModelTemplate made;
  ASSIGN_OR_RETURN(const json::object config, ReadObject(files, "tokenizer_config.json"));
  made.bos_token = TokenField(config, "bos_token");
  made.eos_token = TokenField(config, "eos_token");
  const auto file = files.find("chat_template.jinja");
  const std::string source = file != files.end() ? file->second : TemplateField(config);
  if (!source.empty()) {
    ASSIGN_OR_RETURN(made.chat,
                     ChatTemplate::Parse(source).Context("While reading the chat template"));
  }
  return made;
}

Result<std::string> ModelTemplate::Render(json::object variables) const {
  variables.emplace("bos_token", bos_token);
  variables.emplace("eos_token", eos_token);
  return chat->Render(variables).Context("While rendering the chat template");
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
  if (const auto id = text.tokenizer_.TokenId(text.template_.eos_token))
    text.stop_ids_.push_back(*id);
  std::sort(text.stop_ids_.begin(), text.stop_ids_.end());
  text.stop_ids_.erase(std::unique(text.stop_ids_.begin(), text.stop_ids_.end()),
                       text.stop_ids_.end());
  return text;
}

Result<std::vector<int32_t>> ModelText::EncodeText(std::string_view text) const {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_.Encode(text, /*add_special_tokens=*/true));
  if (ids.empty())
    return Error(ErrorCode::kInvalidArgument, "The prompt is empty; give at least one token.");
  return ids;
}

Result<std::vector<int32_t>> ModelText::EncodeChat(const ChatRequest& request) const {
  if (!template_.chat) {
    std::string all;
    for (const json::value& message : request.messages) {
      const json::value& content = message.as_object().at("content");
      if (content.is_string()) all += content.as_string();
    }
    return EncodeText(all);
  }
  ASSIGN_OR_RETURN(const std::string prompt, RenderChat(request, request.messages, true));
  ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                   tokenizer_.Encode(prompt, /*add_special_tokens=*/false));
  if (ids.empty()) return Error(ErrorCode::kInvalidArgument, "The rendered prompt is empty.");
  return ids;
}

Result<std::string> ModelText::RenderChat(const ChatRequest& request, const json::array& messages,
                                          bool opens_answer) const {
  json::object context = request.template_kwargs;
  context["messages"] = messages;
  if (!request.tools.empty()) context["tools"] = request.tools;
  context["add_generation_prompt"] = opens_answer;
  context["bos_token"] = template_.bos_token;  // whatever template_kwargs say
  context["eos_token"] = template_.eos_token;
  return template_.Render(std::move(context));
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
  if (!template_.chat) return positions;
  const auto prompt = RenderChat(request, request.messages, true);
  if (!prompt.ok()) return positions;
  const std::string& whole = prompt.value();
  // The tokens of the text that a rendering shares with the prompt.
  const auto add = [&](const json::array& messages) {
    const auto other = RenderChat(request, messages, false);
    if (!other.ok()) return;  // a template may demand a message of the user
    const auto parted = std::ranges::mismatch(whole, other.value());
    const auto shared = tokenizer_.Encode(std::string_view(whole.begin(), parted.in1),
                                          /*add_special_tokens=*/false);
    if (!shared.ok()) return;
    const auto at = std::ranges::mismatch(shared.value(), ids).in1 - shared.value().begin();
    if (at > 0 && static_cast<size_t>(at) < ids.size())
      positions.push_back(static_cast<uint32_t>(at));
  };
  json::array opening;
  for (const json::value& message : request.messages) {
    const json::value& role = message.as_object().at("role");
    if (role != "system" && role != "developer") break;
    opening.push_back(message);
  }
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
