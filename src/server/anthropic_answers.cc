#include "server/anthropic_answers.h"

#include <memory>
#include <utility>
#include <variant>

#include "api/anthropic_request.h"
#include "api/anthropic_response.h"
#include "base/random.h"
#include "server/responses.h"

namespace weft::server {
namespace {

class MessageWriter : public StreamingWriter {
 public:
  MessageWriter(bool is_stream, const AnswerHead& head, std::shared_ptr<net::Responder> responder)
      : StreamingWriter(std::move(responder), is_stream),
        prompt_tokens_(head.prompt_tokens),
        message_("msg_" + SecureRandomHex(12), head.model, head.text.answer_format().short_ids) {}

  void Begin() override {
    has_begun_ = true;
    if (!is_stream()) return;
    StartEventStream(responder());
    responder().Write(message_.Begin(prompt_tokens_));
  }

  void Write(const std::vector<chat::Event>& events,
             std::vector<api::SaidToken> /*said*/) override {
    std::string told = message_.Take(events);
    if (is_stream() && !told.empty()) responder().Write(std::move(told));
  }

  void SayMoving() override { SayAlive(); }
  void SayAlive() override { responder().Write(api::AnthropicPing()); }

  void Finish(const api::AnswerEnd& end) override {
    if (!is_stream()) return responder().Send(JsonResponse(200, message_.Whole(end)));
    responder().Write(message_.End(end));
    responder().End();
  }

  void Fail(const api::ApiError& error) override {
    if (!is_stream() || !has_begun_) return responder().Send(AnthropicErrorResponse(error));
    responder().Write(api::AnthropicErrorEvent(error));
    responder().End();
  }

 private:
  const size_t prompt_tokens_;
  api::AnthropicMessage message_;
  bool has_begun_ = false;
};

}  // namespace

bool IsOfAnthropic(const net::HttpRequest& request) {
  return !request.Header("anthropic-version").empty();
}

net::HttpResponse AnthropicModels(std::span<const api::ServedModel> served) {
  return JsonResponse(200, api::AnthropicModelsJson(served));
}

net::HttpResponse AnthropicModel(const api::ServedModel& served, const std::string& asked) {
  if (api::IsServed(asked, served.name)) return JsonResponse(200, api::AnthropicModelJson(served));
  return AnthropicErrorResponse(api::NoSuchModel(asked, served.name));
}

net::HttpResponse AnthropicErrorResponse(const api::ApiError& error) {
  net::HttpResponse response = ErrorResponseWith(error, api::AnthropicErrorJson(error));
  response.status = api::AnthropicStatus(error.status);
  return response;
}

net::HttpResponse AnthropicDialect::Error(const api::ApiError& error) const {
  return AnthropicErrorResponse(error);
}

api::ApiResult<Question> AnthropicDialect::Read(std::string_view body, const std::string& /*salt*/,
                                                const sampling::Parameters& defaults) const {
  auto parsed = api::ParseAnthropicRequest(AsBytes(body), defaults);
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) return std::move(*refused);
  Question question;
  question.chat = std::move(std::get<api::ChatRequest>(parsed));
  question.write = [is_stream = question.chat.stream](const AnswerHead& head,
                                                      std::shared_ptr<net::Responder> responder) {
    Writers writers;
    writers.push_back(std::make_unique<MessageWriter>(is_stream, head, std::move(responder)));
    return writers;
  };
  return question;
}

api::ApiResult<Question> AnthropicCountDialect::Read(std::string_view body,
                                                     const std::string& /*salt*/,
                                                     const sampling::Parameters& defaults) const {
  auto parsed = api::ParseAnthropicRequest(AsBytes(body), defaults, /*counts_only=*/true);
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) return std::move(*refused);
  Question question;
  question.chat = std::move(std::get<api::ChatRequest>(parsed));
  question.count = [](size_t prompt_tokens) {
    return JsonResponse(200, api::AnthropicCountJson(prompt_tokens));
  };
  return question;
}

}  // namespace weft::server
