#include "server/completion.h"

#include <boost/json/object.hpp>
#include <utility>

#include "server/responses.h"

namespace weft::server {
namespace json = boost::json;

namespace {

// A comment line that keeps proxies and people from giving up while a request waits.
constexpr Duration kKeepAliveInterval = Seconds(5);
// How often a request without a token is looked at; what has changed is said in a comment.
constexpr Duration kProgressInterval = Milliseconds(250);
constexpr int kLooksPerKeepAlive = 20;

json::value TokenLogprob(const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string bytes = tokenizer.TokenBytes(id);
  json::array byte_values;
  for (const char c : bytes) byte_values.push_back(static_cast<uint8_t>(c));
  const std::vector<int32_t> ids = {id};
  return json::object{{"token", tokenizer.Decode(ids, false)},
                      {"logprob", logprob},
                      {"bytes", std::move(byte_values)}};
}

}  // namespace

void Completion::Start(const CompletionContext& context, const api::CompletionHead& head,
                       const api::ChatRequest& chat, const Generate& generate,
                       std::shared_ptr<net::Responder> responder) {
  const std::shared_ptr<Completion> completion(
      new Completion(context, head, chat, std::move(responder)));
  completion->Submit(generate);
}

Completion::Completion(const CompletionContext& context, const api::CompletionHead& head,
                       const api::ChatRequest& chat, std::shared_ptr<net::Responder> responder)
    : host_(context.host),
      tokenizer_(context.tokenizer),
      wait_(context.wait),
      head_(head),
      stream_(chat.stream),
      include_usage_(chat.include_usage),
      logprobs_(chat.logprobs),
      responder_(std::move(responder)),
      answer_(tokenizer_, chat.stop),
      timer_(context.loop),
      submitted_(MonotonicNow()) {}

void Completion::Submit(const Generate& generate) {
  RequestCallbacks callbacks;
  callbacks.on_token = [self = shared_from_this()](const swarm::EmitToken& token) {
    self->OnToken(token);
  };
  callbacks.on_finish = [self = shared_from_this()](const swarm::FinishRequest& finish) {
    self->OnFinish(finish);
  };
  id_ = generate(std::move(callbacks));
  if (finished_) return;  // the core refused it, or its answer was known
  if (answer_.stopped()) return host_.Cancel(id_);
  responder_->OnClosed([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->finished_) self->host_.Cancel(self->id_);
  });
  if (!under_way_) AwaitSwarm();
}

void Completion::AwaitSwarm() {
  if (host_.is_up()) return Begin();
  if (MonotonicNow() - submitted_ >= wait_) return GiveUp();
  timer_.FireAfter(kProgressInterval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->finished_ && !self->under_way_) self->AwaitSwarm();
  });
}

// The core ends it as cancelled, which is told as the reason that is set here.
void Completion::GiveUp() {
  given_up_ = Overloaded("The swarm did not come up within " +
                         std::to_string(static_cast<int64_t>(wait_.seconds())) + " s. " +
                         host_.snapshot().message);
  host_.Cancel(id_);
}

void Completion::Begin() {
  under_way_ = true;
  timer_.Cancel();
  if (!stream_) return;
  responder_->StartStream(200, {{"Content-Type", kEventStreamType},
                                {"Cache-Control", "no-store"},
                                {"X-Accel-Buffering", "no"}});
  responder_->Write(api::ChunkEvent(head_, {{"role", "assistant"}, {"content", ""}}, ""));
  KeepAlive();
}

void Completion::KeepAlive() {
  timer_.FireAfter(has_token_ ? kKeepAliveInterval : kProgressInterval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->finished_) return;
    if (!self->has_token_) {
      self->SayProgress();
    } else if (self->quiet_) {
      self->responder_->Write(": waiting\n\n");
    }
    self->quiet_ = true;
    self->KeepAlive();
  });
}

void Completion::SayProgress() {
  const auto progress = host_.progress(id_);
  if (!progress) return;
  std::string comment = api::ProgressComment(*progress);
  if (comment == said_ && ++unchanged_looks_ < kLooksPerKeepAlive) return;
  unchanged_looks_ = 0;
  responder_->Write(comment);
  said_ = std::move(comment);
}

json::value Completion::LogprobOf(const swarm::EmitToken& token) const {
  json::object entry = TokenLogprob(tokenizer_, token.token_id, token.logprob).as_object();
  json::array top;
  for (const auto& other : token.top) {
    top.push_back(TokenLogprob(tokenizer_, other.token_id, other.logprob));
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

json::array Completion::TakeLogprobs() {
  json::array taken;
  size_t count = answer_.TakeShownTokens();
  for (; logprobs_ && count > 0; --count) {
    taken.push_back(std::move(held_logprobs_.front()));
    held_logprobs_.pop_front();
  }
  return taken;
}

void Completion::OnToken(const swarm::EmitToken& token) {
  if (answer_.stopped() || given_up_) return;
  if (!under_way_) Begin();  // the swarm came up since the last look
  has_token_ = true;
  if (logprobs_) held_logprobs_.push_back(LogprobOf(token));
  WriteText(answer_.Push(token.token_id));
  if (answer_.stopped()) host_.Cancel(id_);
}

// The entries of tokens come with the text that they begin: where it ends, they do.
void Completion::WriteText(const std::string& text) {
  json::array logprobs = TakeLogprobs();
  if (!stream_) {
    text_ += text;
    for (json::value& entry : logprobs) all_logprobs_.push_back(std::move(entry));
    return;
  }
  if (text.empty() && logprobs.empty()) return;
  quiet_ = false;
  if (logprobs.empty()) return responder_->Write(api::ContentEvent(head_, text));
  responder_->Write(
      api::ChunkEvent(head_, {{"content", text}}, "",
                      json::object{{"content", std::move(logprobs)}, {"refusal", nullptr}}));
}

void Completion::OnFinish(const swarm::FinishRequest& finish) {
  finished_ = true;
  timer_.Cancel();
  if (given_up_) return Fail(*given_up_);
  if (finish.over_share) return Fail(OverShare(finish.error->message()));
  if (finish.reason == swarm::FinishReason::kError) return Fail(api::FromError(*finish.error));
  if (!under_way_) Begin();  // it ended without a token
  const std::string rest = answer_.Flush();
  const bool at_length = finish.reason == swarm::FinishReason::kLength && !answer_.stopped();
  const std::string reason = at_length ? "length" : "stop";
  const api::Usage usage{finish.prompt_tokens, finish.cached_prompt_tokens, finish.generated_tokens,
                         finish.lost_groups};
  stream_ ? FinishStream(rest, reason, usage) : FinishWhole(rest, reason, usage);
}

void Completion::FinishStream(const std::string& rest, const std::string& reason,
                              const api::Usage& usage) {
  timer_.Cancel();
  WriteText(rest);
  responder_->Write(api::ChunkEvent(head_, json::object(), reason));
  if (include_usage_) responder_->Write(api::UsageEvent(head_, usage));
  responder_->Write("data: [DONE]\n\n");
  responder_->End();
}

void Completion::FinishWhole(const std::string& rest, const std::string& reason,
                             const api::Usage& usage) {
  WriteText(rest);
  json::value logprobs = nullptr;
  if (logprobs_) logprobs = json::object{{"content", all_logprobs_}, {"refusal", nullptr}};
  responder_->Send(JsonResponse(200, api::CompletionJson(head_, text_, reason, usage, logprobs)));
}

void Completion::Fail(const api::ApiError& error) {
  if (!stream_ || !under_way_) return responder_->Send(ErrorResponse(error));
  responder_->Write(api::ErrorEvent(error));
  responder_->Write("data: [DONE]\n\n");
  responder_->End();
}

}  // namespace weft::server
