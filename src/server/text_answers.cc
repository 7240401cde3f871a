#include "server/text_answers.h"

#include <utility>
#include <variant>

#include "api/text_request.h"
#include "api/text_response.h"
#include "base/random.h"
#include "server/responses.h"

namespace weft::server {
namespace json = boost::json;

namespace {

struct TextForm {
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
};

class TextWriter : public StreamingWriter {
 public:
  TextWriter(const TextForm& form, const AnswerHead& head,
             std::shared_ptr<net::Responder> responder)
      : StreamingWriter(std::move(responder), form.stream),
        head_{"cmpl-" + SecureRandomHex(12), head.created_s, head.model},
        form_(form) {}

  void Begin() override {
    has_begun_ = true;
    if (is_stream()) StartEventStream(responder());
  }

  void Write(const std::vector<chat::Event>& events, std::vector<api::SaidToken> said) override {
    std::string text;
    for (const chat::Event& event : events) text += event.text;
    if (is_stream()) return responder().Write(api::TextEvent(head_, text, "", LogprobsOf(said)));
    text_ += text;
    for (api::SaidToken& token : said) said_.push_back(std::move(token));
  }

  void Finish(const api::AnswerEnd& end) override {
    const std::string reason = api::FinishReason(end.reason);
    if (!is_stream())
      return responder().Send(
          JsonResponse(200, api::TextJson(head_, text_, reason, LogprobsOf(said_), end.usage)));
    responder().Write(api::TextEvent(head_, "", reason, nullptr));
    if (form_.include_usage) responder().Write(api::TextUsageEvent(head_, end.usage));
    EndStream();
  }

  void Fail(const api::ApiError& error) override {
    if (!is_stream() || !has_begun_) return responder().Send(ErrorResponse(error));
    responder().Write(api::ErrorEvent(error));
    EndStream();
  }

 private:
  json::value LogprobsOf(const std::vector<api::SaidToken>& said) {
    return form_.logprobs ? json::value(logprobs_.Take(said)) : json::value();
  }
  void EndStream() {
    responder().Write("data: [DONE]\n\n");
    responder().End();
  }

  const api::CompletionHead head_;
  const TextForm form_;
  api::TextLogprobs logprobs_;
  bool has_begun_ = false;
  // Of a whole answer.
  std::string text_;
  std::vector<api::SaidToken> said_;
};

}  // namespace

api::ApiResult<Question> TextDialect::Read(std::string_view body, const std::string& /*salt*/,
                                           const sampling::Parameters& defaults) const {
  auto parsed = api::ParseTextRequest(AsBytes(body), defaults);
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) return std::move(*refused);
  auto& request = std::get<api::TextRequest>(parsed);
  Question question;
  question.chat = std::move(request.chat);
  question.prompt = std::move(request.prompt);
  const TextForm form{question.chat.stream, question.chat.include_usage, question.chat.logprobs};
  question.write = [form](const AnswerHead& head, std::shared_ptr<net::Responder> responder) {
    Writers writers;
    writers.push_back(std::make_unique<TextWriter>(form, head, std::move(responder)));
    return writers;
  };
  return question;
}

net::HttpResponse TextDialect::Error(const api::ApiError& error) const {
  return ErrorResponse(error);
}

}  // namespace weft::server
