#include "server/ollama_answers.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "api/ollama_request.h"
#include "base/clock.h"
#include "server/responses.h"

namespace weft::server {
namespace {

using Kind = OllamaDialect::Kind;

// Between lines that say nothing, while a prompt is read.
constexpr Duration kQuietInterval = Seconds(5);

int64_t UnixMicroseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Lines have no comments: what says that an answer lives is a line without text.
class LineWriter : public StreamingWriter {
 public:
  LineWriter(Kind kind, bool is_stream, const AnswerHead& head,
             std::shared_ptr<net::Responder> responder)
      : StreamingWriter(std::move(responder), is_stream),
        answer_(kind, head.model, head.text.answer_format().short_ids) {}

  void Begin() override {
    begun_ = MonotonicNow();
    spoke_ = *begun_;
    if (!is_stream()) return;
    responder().StartStream(200, {{"Content-Type", "application/x-ndjson"},
                                  {"Cache-Control", "no-store"},
                                  {"X-Accel-Buffering", "no"}});
  }

  void Write(const std::vector<chat::Event>& events, std::vector<api::SaidToken> said) override {
    if (!first_) first_ = MonotonicNow();
    std::string lines = answer_.Take(events, said, UnixMicroseconds());
    if (is_stream() && !lines.empty()) responder().Write(std::move(lines));
  }

  // A line without text would look like an answer that has begun; clients wait for the status.
  bool tells_loading() const override { return false; }
  void SayProgress(const swarm::RequestProgress& /*progress*/) override {
    if (MonotonicNow() - spoke_ < kQuietInterval) return;
    spoke_ = MonotonicNow();
    SayAlive();
  }
  void SayMoving() override { SayAlive(); }
  void SayAlive() override { responder().Write(answer_.Alive(UnixMicroseconds())); }

  void Finish(const api::AnswerEnd& end) override {
    const api::OllamaTimes times = Times();
    const int64_t now_us = UnixMicroseconds();
    if (!is_stream()) return responder().Send(JsonResponse(200, answer_.Whole(end, times, now_us)));
    responder().Write(answer_.Last(end, times, now_us));
    responder().End();
  }

  void Fail(const api::ApiError& error) override {
    if (!is_stream() || !begun_) return responder().Send(OllamaErrorResponse(error));
    responder().Write(api::OllamaErrorJson(error) + "\n");
    responder().End();
  }

 private:
  // Waiting for the swarm is what loading is there.
  api::OllamaTimes Times() const {
    const Instant now = MonotonicNow();
    const Instant begun = begun_.value_or(now), first = first_.value_or(now);
    return {now - asked_, begun - asked_, first - begun, now - first};
  }

  api::OllamaAnswer answer_;
  const Instant asked_ = MonotonicNow();
  std::optional<Instant> begun_, first_;
  Instant spoke_;
};

}  // namespace

net::HttpResponse OllamaErrorResponse(const api::ApiError& error) {
  return ErrorResponseWith(error, api::OllamaErrorJson(error));
}

net::HttpResponse OllamaDialect::Error(const api::ApiError& error) const {
  return OllamaErrorResponse(error);
}

api::ApiResult<Question> OllamaDialect::Read(std::string_view body, const std::string& /*salt*/,
                                             const sampling::Parameters& defaults) const {
  auto parsed = kind_ == Kind::kChat ? api::ParseOllamaChat(AsBytes(body), defaults)
                                     : api::ParseOllamaGenerate(AsBytes(body), defaults);
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) return std::move(*refused);
  auto& request = std::get<api::OllamaRequest>(parsed);
  Question question;
  question.chat = std::move(request.chat);
  if (request.raw) question.prompt = std::move(*request.raw);
  if (!request.load.empty()) {
    question.prompt = std::vector<int32_t>();
    question.count = [kind = kind_, model = question.chat.model,
                      reason = request.load](size_t /*prompt_tokens*/) {
      const api::OllamaAnswer answer(kind, model, false);
      return JsonResponse(200, answer.Loaded(reason, UnixMicroseconds()));
    };
  }
  question.write = [kind = kind_, is_stream = question.chat.stream](
                       const AnswerHead& head, std::shared_ptr<net::Responder> responder) {
    Writers writers;
    writers.push_back(std::make_unique<LineWriter>(kind, is_stream, head, std::move(responder)));
    return writers;
  };
  return question;
}

}  // namespace weft::server
