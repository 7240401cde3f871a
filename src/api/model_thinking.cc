// The part of ModelText that knows how the model writes thoughts and calls.
#include <algorithm>
#include <boost/json/object.hpp>

#include "api/model_text.h"
#include "chat/answer_parser.h"
#include "chat/detect.h"

namespace weft::api {
namespace json = boost::json;

namespace {

// Tokens at the end of a prompt among which a marker would be.
constexpr size_t kMarkerTokens = 16;

ApiError CannotTell(const char* field, const std::string& shown, const char* what) {
  return {400,
          "'" + std::string(field) + "' is " + shown + "; this model's chat template takes no '" +
              what + "', so that it cannot be told.",
          "invalid_request_error", field, ""};
}

}  // namespace

void ModelText::LearnFormat() {
  const ChatTemplate* chat = template_.Choose(/*has_tools=*/true);
  if (chat == nullptr) return;
  const chat::RenderTemplate render = [this](json::object variables) {
    auto text = template_.Render(std::move(variables));
    return text.ok() ? Result<std::string>(std::move(text->text))
                     : Result<std::string>(std::move(text).error());
  };
  format_ = chat::DetectFormat(chat->source(), render);
  for (const std::string& marker : format_.Markers()) {
    const auto ids = tokenizer_.Encode(marker, /*add_special_tokens=*/false);
    if (!ids.ok()) continue;
    for (const int32_t id : *ids)
      if (tokenizer_.Decode(std::span(&id, 1), /*skip_special=*/true).empty())
        marker_ids_.push_back(id);
  }
  std::ranges::sort(marker_ids_);
  marker_ids_.erase(std::unique(marker_ids_.begin(), marker_ids_.end()), marker_ids_.end());
  std::vector<std::string> others;
  for (int32_t id = 0; id < tokenizer_.vocab_count(); ++id)
    if (tokenizer_.IsControl(id) && !std::ranges::binary_search(marker_ids_, id))
      others.push_back(tokenizer_.TokenBytes(id));
  call_spelling_ = chat::LearnSpelling(format_, render, others);
}

bool ModelText::OpensThinking(std::span<const int32_t> ids) const {
  if (format_.thinking.begin.empty()) return false;
  std::string end = tokenizer_.Decode(ids.last(std::min(ids.size(), kMarkerTokens)), false);
  end.resize(end.find_last_not_of(" \t\r\n") + 1);
  return end.ends_with(format_.thinking.begin);
}

std::string ModelText::AnswerBeginsBehind(std::span<const int32_t> ids) const {
  if (format_.has_channels) return "<|channel|>final<|message|>";
  return OpensThinking(ids) ? format_.thinking.end : "";
}

std::optional<ApiError> ModelText::CheckThinking(const ChatRequest& request) const {
  const ChatTemplate* chat = template_.Choose(!request.tools.empty());
  if (chat == nullptr) return std::nullopt;  // there are worse reasons to refuse it
  const auto takes = [chat](const char* name) {
    return chat->source().find(name) != std::string::npos;
  };
  const std::string& effort = request.reasoning_effort;
  const char* wanted = effort == "none" ? "enable_thinking" : "reasoning_effort";
  if (!effort.empty() && !takes(wanted))
    return CannotTell("reasoning_effort", "\"" + effort + "\"", wanted);
  if (request.enable_thinking && !takes("enable_thinking"))
    return CannotTell("enable_thinking", *request.enable_thinking ? "true" : "false",
                      "enable_thinking");
  return std::nullopt;
}

std::vector<std::string> ModelText::Capabilities() const {
  std::vector<std::string> capabilities = {"completion"};
  const ChatTemplate* chat = template_.Choose(/*has_tools=*/true);
  if (chat == nullptr) return capabilities;
  const auto has = [chat](std::string_view text) {
    return !text.empty() && chat->source().find(text) != std::string::npos;
  };
  if (has("tools") || !format_.calls.empty()) capabilities.emplace_back("tools");
  if (format_.has_channels || has("enable_thinking") || has("reasoning_effort") ||
      has(format_.thinking.begin))
    capabilities.emplace_back("thinking");
  return capabilities;
}

bool ModelText::MayThink(const ChatRequest& request) const {
  if (request.enable_thinking == false || request.reasoning_effort == "none") return false;
  if (request.max_thinking_tokens == 0u) return false;
  if (format_.has_channels) return true;
  const ChatTemplate* chat = template_.Choose(!request.tools.empty());
  return chat != nullptr && !format_.thinking.begin.empty() && !format_.thinking.end.empty() &&
         chat->source().find(format_.thinking.end) != std::string::npos;
}

Result<std::vector<int32_t>> ModelText::EndOfThinking() const {
  return tokenizer_.Encode(chat::EndOfThinking(format_), /*add_special_tokens=*/false);
}

}  // namespace weft::api
