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
                       const api::ChatRequest& chat, const AnswerReading& reading,
                       const Generate& generate, GoOn go_on,
                       std::shared_ptr<net::Responder> responder) {
  const std::shared_ptr<Completion> completion(
      new Completion(context, head, chat, reading, std::move(go_on), std::move(responder)));
  completion->Submit(generate);
}

Completion::Completion(const CompletionContext& context, const api::CompletionHead& head,
                       const api::ChatRequest& chat, const AnswerReading& reading, GoOn go_on,
                       std::shared_ptr<net::Responder> responder)
    : host_(context.host),
      loop_(context.loop),
      text_(context.text),
      wait_(context.wait),
      head_(head),
      stream_(chat.stream),
      include_usage_(chat.include_usage),
      logprobs_(chat.logprobs),
      shows_thinking_(chat.shows_thinking),
      max_tokens_(chat.max_tokens),
      max_thinking_tokens_(chat.max_thinking_tokens),
      go_on_(std::move(go_on)),
      responder_(std::move(responder)),
      answer_(text_.tokenizer(), chat.stop, text_.marker_ids()),
      parser_(text_.answer_format(), reading.tools,
              {.parses_calls = chat.parses_calls,
               .splits_thinking = chat.splits_thinking,
               .opens_thinking = reading.opens_thinking,
               .ends_with_call = chat.ends_with_call}),
      message_(text_.answer_format().short_ids),
      timer_(context.loop),
      submitted_(MonotonicNow()) {}

RequestCallbacks Completion::Callbacks() {
  RequestCallbacks callbacks;
  callbacks.on_token = [self = shared_from_this()](const swarm::EmitToken& token) {
    self->OnToken(token);
  };
  callbacks.on_finish = [self = shared_from_this()](const swarm::FinishRequest& finish) {
    self->OnFinish(finish);
  };
  return callbacks;
}

void Completion::Submit(const Generate& generate) {
  id_ = generate(Callbacks());
  if (finished_) return;  // the core refused it, or its answer was known
  if (has_answer() || is_cut_) host_.Cancel(id_);
  responder_->OnClosed([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->finished_) return;
    self->is_gone_ = true;
    self->host_.Cancel(self->id_);
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
  json::object entry = TokenLogprob(text_.tokenizer(), token.token_id, token.logprob).as_object();
  json::array top;
  for (const auto& other : token.top) {
    top.push_back(TokenLogprob(text_.tokenizer(), other.token_id, other.logprob));
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
  if (has_answer() || given_up_ || (is_cut_ && !first_)) return;
  if (!under_way_) Begin();  // the swarm came up since the last look
  const bool thought_before = parser_.is_thinking();
  if (max_thinking_tokens_ && !is_cut_) answer_ids_.push_back(token.token_id);
  Take(token);
  if (has_answer() || ThinksTooLong(thought_before)) host_.Cancel(id_);
}

void Completion::Take(const swarm::EmitToken& token) {
  has_token_ = true;
  if (logprobs_) held_logprobs_.push_back(LogprobOf(token));
  WriteEvents(parser_.Push(answer_.Push(token.token_id)));
}

// A marker that begins thoughts is none of their tokens: where none is allowed, they end right
// behind it.
bool Completion::ThinksTooLong(bool thought_before) {
  if (!max_thinking_tokens_ || is_cut_ || !parser_.is_thinking()) return false;
  if (thought_before) ++thinking_tokens_;
  is_cut_ = thinking_tokens_ >= *max_thinking_tokens_;
  return is_cut_;
}

// The entries of tokens come with the text that they begin: where it ends, they do.
void Completion::WriteEvents(std::vector<chat::Event> events) {
  json::array logprobs = TakeLogprobs();
  if (!shows_thinking_)
    std::erase_if(
        events, [](const chat::Event& event) { return event.kind == chat::EventKind::kReasoning; });
  std::vector<json::object> deltas = message_.Take(events);
  if (!stream_) {
    for (json::value& entry : logprobs) all_logprobs_.push_back(std::move(entry));
    return;
  }
  if (deltas.empty() && !logprobs.empty()) deltas.push_back({{"content", ""}});
  for (json::object& delta : deltas) Write(std::move(delta), std::exchange(logprobs, {}));
}

void Completion::Write(json::object delta, json::array logprobs) {
  quiet_ = false;
  const json::value* content = delta.if_contains("content");
  if (logprobs.empty() && content != nullptr)
    return responder_->Write(api::ContentEvent(head_, std::string(content->as_string())));
  json::value entries = nullptr;
  if (!logprobs.empty())
    entries = json::object{{"content", std::move(logprobs)}, {"refusal", nullptr}};
  responder_->Write(api::ChunkEvent(head_, std::move(delta), "", std::move(entries)));
}

// Where there is no room for more than what ends them, the answer ends with its thoughts.
void Completion::EndThoughts(swarm::FinishRequest first) {
  const auto ids = text_.EndOfThinking();
  if (!ids.ok()) {
    first.reason = swarm::FinishReason::kError;
    first.error = ids.error();
    return Finish(first);
  }
  if (max_tokens_ && answer_ids_.size() + ids->size() >= *max_tokens_) {
    first.reason = swarm::FinishReason::kLength;
    return Finish(first);
  }
  first_ = std::move(first);
  for (const int32_t id : *ids) {
    if (has_answer()) break;
    answer_ids_.push_back(id);
    Take({.token_id = id});
  }
  // Not from within the core's own word that the first part has ended.
  loop_.Post([self = shared_from_this()] { self->GoOnBehindThoughts(); });
}

void Completion::GoOnBehindThoughts() {
  if (is_gone_) {
    finished_ = true;
    return;
  }
  id_ = go_on_(answer_ids_, Callbacks());
  if (!finished_ && has_answer()) host_.Cancel(id_);
}

void Completion::OnFinish(const swarm::FinishRequest& finish) {
  const bool ends_well = finish.reason != swarm::FinishReason::kError && !given_up_ && !is_gone_;
  if (is_cut_ && !first_ && ends_well) return EndThoughts(finish);
  Finish(finish);
}

void Completion::Finish(const swarm::FinishRequest& finish) {
  finished_ = true;
  timer_.Cancel();
  if (given_up_) return Fail(*given_up_);
  if (finish.over_share) return Fail(OverShare(finish.error->message()));
  if (finish.reason == swarm::FinishReason::kError) return Fail(api::FromError(*finish.error));
  if (!under_way_) Begin();  // it ended without a token
  WriteEvents(parser_.Push(answer_.Flush()));
  WriteEvents(parser_.Flush());
  const bool at_length = finish.reason == swarm::FinishReason::kLength && !has_answer();
  const std::string reason = at_length ? "length" : message_.has_calls() ? "tool_calls" : "stop";
  api::Usage usage{finish.prompt_tokens, finish.cached_prompt_tokens, finish.generated_tokens,
                   finish.lost_groups};
  if (first_) {
    usage.prompt_tokens = first_->prompt_tokens;
    usage.cached_prompt_tokens = first_->cached_prompt_tokens;
    usage.completion_tokens += static_cast<uint32_t>(answer_ids_.size());
  }
  stream_ ? FinishStream(reason, usage) : FinishWhole(reason, usage);
}

void Completion::FinishStream(const std::string& reason, const api::Usage& usage) {
  responder_->Write(api::ChunkEvent(head_, json::object(), reason));
  if (include_usage_) responder_->Write(api::UsageEvent(head_, usage));
  responder_->Write("data: [DONE]\n\n");
  responder_->End();
}

void Completion::FinishWhole(const std::string& reason, const api::Usage& usage) {
  json::value logprobs = nullptr;
  if (logprobs_) logprobs = json::object{{"content", all_logprobs_}, {"refusal", nullptr}};
  responder_->Send(
      JsonResponse(200, api::CompletionJson(head_, message_.Message(), reason, usage, logprobs)));
}

void Completion::Fail(const api::ApiError& error) {
  if (!stream_ || !under_way_) return responder_->Send(ErrorResponse(error));
  responder_->Write(api::ErrorEvent(error));
  responder_->Write("data: [DONE]\n\n");
  responder_->End();
}

}  // namespace weft::server
