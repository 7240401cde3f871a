#include "server/completion.h"

#include <utility>

#include "api/openai_response.h"
#include "server/responses.h"

namespace weft::server {
namespace {

// A comment line that keeps proxies and people from giving up while a request waits.
constexpr Duration kKeepAliveInterval = Seconds(5);
// How often a request without a token is looked at; what has changed is said in a comment.
constexpr Duration kProgressInterval = Milliseconds(250);
constexpr int kLooksPerKeepAlive = 20;
// Small models are loaded sooner, and a refusal can have a status until then.
constexpr Duration kQuietLoading = Seconds(1);

api::TokenChance ChanceOf(const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::vector<int32_t> ids = {id};
  return {tokenizer.Decode(ids, false), tokenizer.TokenBytes(id), logprob};
}

}  // namespace

void Completion::Start(const CompletionContext& context, const api::ChatRequest& chat,
                       const AnswerReading& reading, const Generate& generate, GoOn go_on,
                       std::unique_ptr<AnswerWriter> writer) {
  const std::shared_ptr<Completion> completion(
      new Completion(context, chat, reading, std::move(go_on), std::move(writer)));
  completion->Submit(generate);
}

Completion::Completion(const CompletionContext& context, const api::ChatRequest& chat,
                       const AnswerReading& reading, GoOn go_on,
                       std::unique_ptr<AnswerWriter> writer)
    : generator_(context.generator),
      loop_(context.loop),
      text_(context.text),
      model_(context.model),
      wait_(context.wait),
      load_wait_(context.load_wait),
      logprobs_(chat.logprobs),
      shows_thinking_(chat.shows_thinking),
      max_tokens_(chat.max_tokens),
      max_thinking_tokens_(chat.max_thinking_tokens),
      go_on_(std::move(go_on)),
      writer_(std::move(writer)),
      answer_(text_.tokenizer(), chat.stop, text_.marker_ids()),
      parser_(text_.answer_format(), reading.tools,
              {.parses_calls = chat.parses_calls,
               .splits_thinking = chat.splits_thinking,
               .opens_thinking = reading.opens_thinking,
               .ends_with_call = chat.ends_with_call}),
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
  callbacks.on_moving = [self = shared_from_this()] {
    if (self->under_way_ && self->writer_->is_stream()) self->writer_->SayMoving();
  };
  return callbacks;
}

void Completion::Submit(const Generate& generate) {
  id_ = generate(Callbacks());
  if (finished_) return;  // the core refused it, or its answer was known
  if (has_answer() || is_cut_) generator_.Cancel(id_);
  writer_->OnClosed([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->finished_) return;
    self->is_gone_ = true;
    self->generator_.Cancel(self->id_);
  });
  if (!under_way_ && !finished_) AwaitSwarm();
}

void Completion::AwaitSwarm() {
  if (generator_.is_up() && generator_.has_accepted(id_)) return Begin();
  const Duration waited = MonotonicNow() - submitted_;
  const bool may_load = waited < load_wait_ && generator_.is_loading();
  if (waited >= wait_ && !may_load) return GiveUp();
  if (may_load && waited >= kQuietLoading && writer_->tells_loading()) SayLoading();
  timer_.FireAfter(kProgressInterval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->finished_ && !self->under_way_) self->AwaitSwarm();
  });
}

// When the share has changed, else every five seconds.
void Completion::SayLoading() {
  const Instant now = MonotonicNow();
  const auto percent = generator_.loading_percent();
  if (said_loading_at_ && said_percent_ == percent && now < *said_loading_at_ + kKeepAliveInterval)
    return;
  if (!std::exchange(has_begun_, true)) writer_->Begin();
  said_loading_at_ = now;
  said_percent_ = percent;
  writer_->SayLoading(model_, percent);
}

// The core ends it as cancelled, which is told as the reason that is set here.
void Completion::GiveUp() {
  given_up_ =
      Overloaded("The swarm did not come up within " +
                 std::to_string(static_cast<int64_t>((MonotonicNow() - submitted_).seconds())) +
                 " s. " + generator_.message());
  generator_.Cancel(id_);
}

void Completion::Begin() {
  under_way_ = true;
  timer_.Cancel();
  if (!std::exchange(has_begun_, true)) writer_->Begin();
  if (writer_->is_stream()) KeepAlive();
}

void Completion::KeepAlive() {
  timer_.FireAfter(has_token_ ? kKeepAliveInterval : kProgressInterval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->finished_) return;
    if (!self->has_token_) {
      self->SayProgress();
    } else if (self->quiet_) {
      self->writer_->SayAlive();
    }
    self->quiet_ = true;
    self->KeepAlive();
  });
}

void Completion::SayProgress() {
  const auto progress = generator_.progress(id_);
  if (!progress) return;
  if (told_ == progress && ++unchanged_looks_ < kLooksPerKeepAlive) return;
  unchanged_looks_ = 0;
  writer_->SayProgress(*progress);
  told_ = progress;
}

api::SaidToken Completion::SaidOf(const swarm::EmitToken& token) const {
  api::SaidToken said{ChanceOf(text_.tokenizer(), token.token_id, token.logprob), {}};
  for (const auto& other : token.top)
    said.top.push_back(ChanceOf(text_.tokenizer(), other.token_id, other.logprob));
  return said;
}

std::vector<api::SaidToken> Completion::TakeSaid() {
  std::vector<api::SaidToken> taken;
  size_t count = answer_.TakeShownTokens();
  for (; logprobs_ && count > 0; --count) {
    taken.push_back(std::move(held_.front()));
    held_.pop_front();
  }
  return taken;
}

void Completion::OnToken(const swarm::EmitToken& token) {
  if (has_answer() || given_up_ || (is_cut_ && !first_)) return;
  if (!under_way_) Begin();  // the swarm came up since the last look
  const bool thought_before = parser_.is_thinking();
  if (max_thinking_tokens_ && !is_cut_) answer_ids_.push_back(token.token_id);
  Take(token);
  if (has_answer() || ThinksTooLong(thought_before)) generator_.Cancel(id_);
}

void Completion::Take(const swarm::EmitToken& token) {
  has_token_ = true;
  if (logprobs_) held_.push_back(SaidOf(token));
  const bool thought_before = parser_.is_thinking();
  Tell(parser_.Push(answer_.Push(token.token_id)));
  if (thought_before || parser_.is_thinking()) ++thought_tokens_;
}

// A marker that begins thoughts is none of their tokens: where none is allowed, they end right
// behind it.
bool Completion::ThinksTooLong(bool thought_before) {
  if (!max_thinking_tokens_ || is_cut_ || !parser_.is_thinking()) return false;
  if (thought_before) ++thinking_tokens_;
  is_cut_ = thinking_tokens_ >= *max_thinking_tokens_;
  return is_cut_;
}

void Completion::Tell(std::vector<chat::Event> events) {
  std::vector<api::SaidToken> said = TakeSaid();
  if (!shows_thinking_)
    std::erase_if(
        events, [](const chat::Event& event) { return event.kind == chat::EventKind::kReasoning; });
  if (events.empty() && said.empty()) return;
  quiet_ = false;
  writer_->Write(events, std::move(said));
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
  if (!finished_ && has_answer()) generator_.Cancel(id_);
}

void Completion::OnFinish(const swarm::FinishRequest& finish) {
  const bool ends_well = finish.reason != swarm::FinishReason::kError && !given_up_ && !is_gone_;
  if (is_cut_ && !first_ && ends_well) return EndThoughts(finish);
  Finish(finish);
}

void Completion::Finish(const swarm::FinishRequest& finish) {
  finished_ = true;
  timer_.Cancel();
  if (is_gone_) return;  // an answer that was cut off is none
  if (given_up_) return writer_->Fail(*given_up_);
  if (finish.over_share) return writer_->Fail(OverShare(finish.error->message()));
  if (finish.reason == swarm::FinishReason::kError)
    return writer_->Fail(api::FromError(*finish.error));
  if (!under_way_) Begin();  // it ended without a token
  Tell(parser_.Push(answer_.Flush()));
  Tell(parser_.Flush());
  api::AnswerEnd end;
  end.reason = ReasonOf(finish);
  end.stop_string = answer_.stop_string();
  end.usage = {finish.prompt_tokens, finish.cached_prompt_tokens, finish.generated_tokens,
               finish.lost_groups};
  end.usage.thinking_tokens = thought_tokens_;
  if (first_) {
    end.usage.prompt_tokens = first_->prompt_tokens;
    end.usage.cached_prompt_tokens = first_->cached_prompt_tokens;
    end.usage.completion_tokens += static_cast<uint32_t>(answer_ids_.size());
  }
  writer_->Finish(end);
}

api::EndReason Completion::ReasonOf(const swarm::FinishRequest& finish) const {
  if (finish.reason == swarm::FinishReason::kLength && !has_answer())
    return api::EndReason::kLength;
  return parser_.call_count() > 0 ? api::EndReason::kCalls : api::EndReason::kStop;
}

}  // namespace weft::server
