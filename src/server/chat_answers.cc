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

// What the choices of one answer share. A stream begins when all of them are under way, or when one
// says something: until then a choice that is refused gives the answer a status.
class ChatAnswer : public std::enable_shared_from_this<ChatAnswer> {
 public:
  ChatAnswer(const ChatForm& form, const AnswerHead& head,
             std::shared_ptr<net::Responder> responder)
      : form_(form),
        head_{"chatcmpl-" + SecureRandomHex(12), head.created_s, head.model},
        responder_(std::move(responder)),
        choices_(form.choices) {}

  const ChatForm& form() const { return form_; }
  const api::CompletionHead& head() const { return head_; }

  void OnClosed(std::function<void()> callback) {
    if (is_over_) return callback();
    on_closed_.push_back(std::move(callback));
    if (on_closed_.size() > 1) return;
    responder_->OnClosed([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->TellClosed();
    });
  }

  void Begin() {
    ++begun_;
    if (begun_ == form_.choices) StartStream();
  }

  void Write(std::string event) {
    if (is_over_) return;
    StartStream();
    responder_->Write(std::move(event));
  }
  // Between events.
  void WriteComment(const std::string& comment) {
    if (!is_over_ && is_streaming_) responder_->Write(comment);
  }

  // `choice`: of an answer that is no stream.
  void Finish(uint32_t index, json::object choice, const api::Usage& usage) {
    choices_.at(index) = std::move(choice);
    Add(index, usage);
    if (is_over_ || ++ended_ < form_.choices) return;
    is_over_ = true;
    if (!form_.stream)
      return responder_->Send(
          JsonResponse(200, api::CompletionJson(head_, std::move(choices_), usage_)));
    if (form_.include_usage) responder_->Write(api::UsageEvent(head_, usage_));
    EndStream();
  }

  // Of one choice is of all.
  void Fail(const api::ApiError& error) {
    if (is_over_) return;
    is_over_ = true;
    if (is_streaming_) {
      responder_->Write(api::ErrorEvent(error));
      EndStream();
    } else {
      responder_->Send(ErrorResponse(error));
    }
    TellClosed();
  }

 private:
  void StartStream() {
    if (is_streaming_ || is_over_ || !form_.stream) return;
    is_streaming_ = true;
    StartEventStream(*responder_);
    for (uint32_t i = 0; i < form_.choices; ++i)
      responder_->Write(api::ChunkEvent(head_, i, {{"role", "assistant"}, {"content", ""}}, ""));
  }
  void EndStream() {
    responder_->Write("data: [DONE]\n\n");
    responder_->End();
  }
  void TellClosed() {
    for (const auto& callback : std::exchange(on_closed_, {})) callback();
  }
  // All choices have one prompt, which the first of them computes.
  void Add(uint32_t index, const api::Usage& usage) {
    if (index == 0) {
      usage_.prompt_tokens = usage.prompt_tokens;
      usage_.cached_prompt_tokens = usage.cached_prompt_tokens;
    }
    usage_.completion_tokens += usage.completion_tokens;
    usage_.thinking_tokens += usage.thinking_tokens;
    if (usage.lost_groups) usage_.lost_groups = usage_.lost_groups.value_or(0) + *usage.lost_groups;
  }

  const ChatForm form_;
  const api::CompletionHead head_;
  const std::shared_ptr<net::Responder> responder_;
  std::vector<std::function<void()>> on_closed_;
  uint32_t begun_ = 0, ended_ = 0;  // choices
  bool is_streaming_ = false;
  bool is_over_ = false;
  json::array choices_;
  api::Usage usage_;
};

class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(std::shared_ptr<ChatAnswer> answer, uint32_t index, bool short_ids)
      : answer_(std::move(answer)), index_(index), message_(short_ids) {}

  bool is_stream() const override { return answer_->form().stream; }
  void OnClosed(std::function<void()> callback) override { answer_->OnClosed(std::move(callback)); }
  void Begin() override { answer_->Begin(); }

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
  bool tells_loading() const override { return is_stream(); }
  // All choices wait for the same model and the same prompt.
  void SayLoading(const std::string& model, std::optional<uint32_t> percent) override {
    if (index_ == 0) answer_->WriteComment(api::LoadingComment(model, percent));
  }
  void SayProgress(const swarm::RequestProgress& progress) override {
    if (index_ == 0) answer_->WriteComment(api::ProgressComment(progress));
  }
  void SayMoving() override { answer_->WriteComment(api::kMovingComment); }
  void SayAlive() override { answer_->WriteComment(kAliveComment); }

  void Finish(const api::AnswerEnd& end) override {
    const std::string reason = api::FinishReason(end.reason);
    if (is_stream()) {
      answer_->Write(api::ChunkEvent(answer_->head(), index_, json::object(), reason));
      return answer_->Finish(index_, {}, end.usage);
    }
    json::value logprobs =
        answer_->form().logprobs ? LogprobsOf(std::move(all_entries_)) : json::value();
    answer_->Finish(index_,
                    api::ChoiceJson(index_, message_.Message(), reason, std::move(logprobs)),
                    end.usage);
  }
  void Fail(const api::ApiError& error) override { answer_->Fail(error); }

 private:
  void WriteDelta(json::object delta, json::array entries) {
    const json::value* content = delta.if_contains("content");
    if (entries.empty() && content != nullptr)
      return answer_->Write(
          api::ContentEvent(answer_->head(), index_, std::string(content->as_string())));
    json::value logprobs = entries.empty() ? json::value() : LogprobsOf(std::move(entries));
    answer_->Write(
        api::ChunkEvent(answer_->head(), index_, std::move(delta), "", std::move(logprobs)));
  }

  const std::shared_ptr<ChatAnswer> answer_;
  const uint32_t index_;
  api::AnswerMessage message_;
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
  const auto answer = std::make_shared<ChatAnswer>(form, head, std::move(responder));
  Writers writers;
  for (uint32_t i = 0; i < form.choices; ++i)
    writers.push_back(std::make_unique<ChatWriter>(answer, i, head.text.answer_format().short_ids));
  return writers;
}

}  // namespace weft::server
