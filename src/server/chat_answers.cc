#include "server/chat_answers.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>
#include <variant>

#include "api/answer_message.h"
#include "api/openai_response.h"
#include "base/random.h"
#include "server/responses.h"

namespace weft::server {
namespace json = boost::json;

namespace {

json::value LogprobsOf(json::array entries) {
  return json::object{{"content", std::move(entries)}, {"refusal", nullptr}};
}

class ChatWriter : public StreamingWriter {
 public:
  ChatWriter(const ChatForm& form, const AnswerHead& head,
             std::shared_ptr<net::Responder> responder)
      : StreamingWriter(std::move(responder), form.stream),
        head_{"chatcmpl-" + SecureRandomHex(12), head.created_s, head.model},
        form_(form),
        message_(head.text.answer_format().short_ids) {}

  void Begin() override {
    has_begun_ = true;
    if (!is_stream()) return;
    StartEventStream(responder());
    responder().Write(api::ChunkEvent(head_, {{"role", "assistant"}, {"content", ""}}, ""));
  }

  // The entries of tokens come with the text that they begin: where it ends, they do.
  void Write(const std::vector<chat::Event>& events, std::vector<api::SaidToken> said) override {
    std::vector<json::object> deltas = message_.Take(events);
    json::array entries;
    for (const api::SaidToken& token : said)
      (is_stream() ? entries : all_entries_).push_back(api::LogprobJson(token));
    if (!is_stream()) return;
    if (deltas.empty() && !entries.empty()) deltas.push_back({{"content", ""}});
    for (json::object& delta : deltas) WriteDelta(std::move(delta), std::exchange(entries, {}));
  }

  void Finish(const api::AnswerEnd& end) override {
    const std::string reason = api::FinishReason(end.reason);
    if (!is_stream()) {
      json::value logprobs = form_.logprobs ? LogprobsOf(std::move(all_entries_)) : json::value();
      return responder().Send(JsonResponse(
          200, api::CompletionJson(head_, message_.Message(), reason, end.usage, logprobs)));
    }
    responder().Write(api::ChunkEvent(head_, json::object(), reason));
    if (form_.include_usage) responder().Write(api::UsageEvent(head_, end.usage));
    EndStream();
  }

  void Fail(const api::ApiError& error) override {
    if (!is_stream() || !has_begun_) return responder().Send(ErrorResponse(error));
    responder().Write(api::ErrorEvent(error));
    EndStream();
  }

 private:
  void WriteDelta(json::object delta, json::array entries) {
    const json::value* content = delta.if_contains("content");
    if (entries.empty() && content != nullptr)
      return responder().Write(api::ContentEvent(head_, std::string(content->as_string())));
    json::value logprobs = entries.empty() ? json::value() : LogprobsOf(std::move(entries));
    responder().Write(api::ChunkEvent(head_, std::move(delta), "", std::move(logprobs)));
  }

  void EndStream() {
    responder().Write("data: [DONE]\n\n");
    responder().End();
  }

  const api::CompletionHead head_;
  const ChatForm form_;
  api::AnswerMessage message_;
  bool has_begun_ = false;
  json::array all_entries_;  // of a whole answer
};

}  // namespace

api::ApiResult<Question> ChatDialect::Read(std::string_view body, const std::string& /*salt*/,
                                           const sampling::Parameters& defaults) const {
  auto parsed = api::ParseChatRequest(AsBytes(body), defaults);
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) return std::move(*refused);
  Question question;
  question.chat = std::move(std::get<api::ChatRequest>(parsed));
  question.write = [form = FormOf(question.chat)](const AnswerHead& head,
                                                  std::shared_ptr<net::Responder> responder) {
    return WriteChat(form, head, std::move(responder));
  };
  return question;
}

net::HttpResponse ChatDialect::Error(const api::ApiError& error) const {
  return ErrorResponse(error);
}

Writers WriteChat(const ChatForm& form, const AnswerHead& head,
                  std::shared_ptr<net::Responder> responder) {
  Writers writers;
  writers.push_back(std::make_unique<ChatWriter>(form, head, std::move(responder)));
  return writers;
}

}  // namespace weft::server
