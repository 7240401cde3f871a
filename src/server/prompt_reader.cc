#include "server/prompt_reader.h"

#include <boost/json/array.hpp>
#include <utility>
#include <variant>

#include "api/call_grammar.h"
#include "api/make_constraint.h"
#include "api/openai_response.h"
#include "server/key_table.h"

namespace weft::server {
namespace json = boost::json;

namespace {

// As the service whose field `prompt_cache_key` is: shorter prompts are computed soon enough.
constexpr size_t kLeastCachedTokens = 1024;

}  // namespace

Prompt PromptReader::Read(Asked asked, std::string_view body) const {
  Prompt prompt;
  prompt.asked = std::move(asked);
  prompt.error = ReadBody(prompt, body);
  return prompt;
}

std::optional<api::ApiError> PromptReader::ReadBody(Prompt& prompt, std::string_view body) const {
  const Asked& asked = prompt.asked;
  if (!asked.idempotency_key.empty()) {
    auto call = MakeKeyedCall(asked.idempotency_key, asked.dialect->name(), body,
                              KeyOfClient(asked.client));
    if (auto* refused = std::get_if<api::ApiError>(&call)) return std::move(*refused);
    prompt.call = std::move(std::get<KeyedCall>(call));
  }
  auto read = asked.dialect->Read(body, asked.salt, text_->default_sampling());
  if (auto* refused = std::get_if<api::ApiError>(&read)) return std::move(*refused);
  prompt.question = std::move(std::get<Question>(read));
  const Question& question = prompt.question;
  const api::ChatRequest& chat = question.chat;
  if (!options_.takes_any_name && !api::IsServed(chat.model, options_.model_name))
    return api::NoSuchModel(chat.model, options_.model_name);
  if (auto error = CheckTokens(question)) return error;
  if (auto error = text_->CheckThinking(chat)) return error;
  if (auto error = ReadOpening(prompt)) return error;
  if (!asked.prefix.empty()) return std::nullopt;
  auto ids = Encode(question);
  if (!ids.ok()) return api::FromError(ids.error());
  prompt.ids = std::move(ids).value();
  if (question.count) return std::nullopt;
  prompt.reading.tools = std::make_shared<const chat::Tools>(chat.tools);
  if (!question.prompt) {
    prompt.reading.opens_thinking = text_->OpensThinking(prompt.ids);
    if (options_.recurrent) prompt.marks = text_->SharedPositions(chat, prompt.ids);
  }
  return CompileForm(prompt);
}

// Those that a client names by number.
std::optional<api::ApiError> PromptReader::CheckTokens(const Question& question) const {
  if (options_.vocabulary == 0) return std::nullopt;
  const auto check = [&](const char* field, int32_t id) -> std::optional<api::ApiError> {
    if (static_cast<uint32_t>(id) < options_.vocabulary) return std::nullopt;
    return api::RefuseField(field, "'" + std::string(field) + "' names the token " +
                                       std::to_string(id) + "; the model has tokens 0 to " +
                                       std::to_string(options_.vocabulary - 1) + ".");
  };
  for (const sampling::TokenBias& bias : question.chat.sampling.logit_bias)
    if (auto error = check("logit_bias", bias.token_id)) return error;
  if (!question.prompt) return std::nullopt;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&*question.prompt))
    for (const int32_t id : *ids)
      if (auto error = check("prompt", id)) return error;
  return std::nullopt;
}

Result<std::vector<int32_t>> PromptReader::Encode(const Question& question) const {
  if (!question.prompt) return text_->EncodeChat(question.chat);
  if (const auto* text = std::get_if<std::string>(&*question.prompt))
    return text_->EncodeText(*text);
  return std::get<std::vector<int32_t>>(*question.prompt);
}

// What the answer has to be, compiled here, where nobody waits for this thread alone.
std::optional<api::ApiError> PromptReader::CompileForm(Prompt& prompt) const {
  api::ChatRequest& chat = prompt.question.chat;
  if (!chat.form) return CompileCalls(prompt);
  if (chat.tool_choice.kind != api::ToolChoice::Kind::kAuto)
    return api::RefuseField("tool_choice", "'tool_choice' demands a call and '" + chat.form->field +
                                               "' a text; an answer has one form.");
  api::ConstraintSource source;
  source.form = chat.form;
  source.begins_behind = text_->AnswerBeginsBehind(prompt.ids);
  const bool begins_at_once = source.begins_behind.empty();
  if (auto error = Constrain(prompt, std::move(source))) return error;
  // What has a form is no call, and where it begins at once nothing of it is a thought.
  chat.parses_calls = false;
  if (begins_at_once) chat.splits_thinking = false;
  return std::nullopt;
}

// Calls that must come, or that must fit what strict tools demand, whether they are read or stay
// text.
std::optional<api::ApiError> PromptReader::CompileCalls(Prompt& prompt) const {
  const api::ChatRequest& chat = prompt.question.chat;
  if (!api::HoldsCalls(chat)) return std::nullopt;
  api::ConstraintSource source;
  source.calls.tools = chat.tools;
  source.calls.tool_choice = chat.tool_choice;
  source.calls.ends_with_call = chat.ends_with_call;
  source.may_think = text_->MayThink(chat);
  // Channels name their thoughts themselves, and the grammar has them.
  if (prompt.reading.opens_thinking) source.begins_behind = text_->answer_format().thinking.end;
  return Constrain(prompt, std::move(source));
}

std::optional<api::ApiError> PromptReader::Constrain(Prompt& prompt,
                                                     api::ConstraintSource source) const {
  const auto made = api::MakeConstraint(std::move(source), *text_);
  if (const auto* refused = std::get_if<api::ApiError>(&made)) return *refused;
  const auto& constraint = std::get<std::shared_ptr<const api::TokenGrammar>>(made);
  prompt.constraint = constraint;
  prompt.form_behind_thoughts = constraint->WithoutThoughts();
  return std::nullopt;
}

// All messages of a PUT, the system messages of a chat.
std::optional<api::ApiError> PromptReader::ReadOpening(Prompt& prompt) const {
  const api::ChatRequest& chat = prompt.question.chat;
  if (prompt.asked.prefix.empty() && chat.keep.empty()) {
    ReadCachedOpening(prompt);
    return std::nullopt;
  }
  if (!prompt.asked.prefix.empty() && !(chat.keep.empty() && chat.cache_salt.empty()))
    return api::ApiError{400,
                         "'keep' and 'cache_salt' are of chats; the path names this prefix, which "
                         "is for all chats of a key.",
                         "invalid_request_error", chat.keep.empty() ? "cache_salt" : "keep", ""};
  json::array messages = prompt.asked.prefix.empty() ? api::OpeningOf(chat) : chat.messages;
  if (messages.empty() && chat.tools.empty())
    return api::ApiError{400,
                         "'keep' is about the system messages that a chat begins with, and "
                         "'messages' begins with none.",
                         "invalid_request_error", "keep", ""};
  auto opening = text_->EncodeOpening(chat, std::move(messages));
  if (!opening.ok()) return api::FromError(opening.error());
  prompt.opening = std::move(opening).value();
  return std::nullopt;
}

// By `prompt_cache_key` what is not worth a place is not kept, and nobody is told.
void PromptReader::ReadCachedOpening(Prompt& prompt) const {
  const api::ChatRequest& chat = prompt.question.chat;
  if (chat.cache_key.empty() || !chat.cache_salt.empty() || prompt.question.prompt) return;
  auto opening = text_->EncodeOpening(chat, api::OpeningOf(chat));
  if (!opening.ok() || opening->size() < kLeastCachedTokens) return;
  prompt.opening = std::move(opening).value();
  prompt.keeps_while_room = true;
}

}  // namespace weft::server
