#include "server/embedding_job.h"

#include <utility>

#include "api/openai_response.h"
#include "base/check.h"
#include "server/responses.h"

namespace weft::server {
namespace {

constexpr Duration kJobLookInterval = Milliseconds(250);

api::ApiError ErrorOf(const swarm::FinishRequest& finish) {
  if (finish.over_share) return OverShare(finish.error->message());
  return api::FromError(*finish.error);
}

}  // namespace

void EmbeddingJob::Start(const EmbeddingContext& context, EmbeddingWork work, Respond respond,
                         Refuse refuse, std::shared_ptr<net::Responder> responder) {
  const std::shared_ptr<EmbeddingJob> job(new EmbeddingJob(
      context, std::move(work), std::move(respond), std::move(refuse), std::move(responder)));
  job->responder_->OnClosed([weak = job->weak_from_this()] {
    if (const auto self = weak.lock(); self && !self->is_over_) self->End();
  });
  job->AwaitSwarm();
  job->SubmitMore();
}

EmbeddingJob::EmbeddingJob(const EmbeddingContext& context, EmbeddingWork work, Respond respond,
                           Refuse refuse, std::shared_ptr<net::Responder> responder)
    : context_(context),
      work_(std::move(work)),
      respond_(std::move(respond)),
      refuse_(std::move(refuse)),
      responder_(std::move(responder)),
      begun_(MonotonicNow()),
      up_at_(begun_),
      timer_(context.loop) {
  for (size_t i = 0; i < work_.inputs.size(); ++i) {
    parts_.push_back({Pooler(work_.pooling, work_.normalize, work_.columns, work_.dimensions)});
    waiting_.push_back(i);
  }
  made_.vectors.resize(work_.inputs.size());
}

void EmbeddingJob::AwaitSwarm() {
  up_at_ = MonotonicNow();
  if (context_.generator.is_up() || done_ > 0) return;
  const Duration waited = up_at_ - begun_;
  const bool may_load = waited < context_.load_wait && context_.generator.is_loading();
  if (waited >= context_.wait && !may_load)
    return Fail(Overloaded("The swarm did not come up within " +
                           std::to_string(static_cast<int64_t>(waited.seconds())) + " s. " +
                           context_.generator.message()));
  timer_.FireAfter(kJobLookInterval, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && !self->is_over_) self->AwaitSwarm();
  });
}

void EmbeddingJob::GoOnLater() {
  context_.loop.Post([self = shared_from_this()] { self->SubmitMore(); });
}

void EmbeddingJob::SubmitMore() {
  while (!is_over_ && !waiting_.empty() && running_ < context_.at_once) {
    const size_t index = waiting_.front();
    waiting_.pop_front();
    if (Submit(index)) continue;
    const bool is_full = refused_->error && refused_->error->code() == ErrorCode::kUnavailable;
    if (!is_full || running_ == 0) return Fail(ErrorOf(*refused_));
    waiting_.push_front(index);  // until one of those that run is over
    return;
  }
}

// Whether the core has taken it; else `refused_` says why not.
bool EmbeddingJob::Submit(size_t index) {
  swarm::Request request;
  request.client = work_.client;
  request.salt = work_.salt;
  request.prompt_ids = work_.inputs[index];
  request.sampling.temperature = 0;
  (work_.pooling == package::Pooling::kLast ? request.want_last_row : request.want_logits) = true;
  RequestCallbacks callbacks;
  callbacks.on_token = [](const swarm::EmitToken&) {};
  callbacks.on_logits = [self = shared_from_this(), index](const swarm::EmitLogits& rows) {
    self->parts_[index].pooler.Add(rows.first_position, rows.logits.bytes());
  };
  callbacks.on_finish = [self = shared_from_this(), index](const swarm::FinishRequest& finish) {
    self->OnFinish(index, finish);
  };
  Part& part = parts_[index];
  part.is_running = true;
  ++running_;
  refused_.reset();
  is_submitting_ = true;
  part.id = context_.generator.Submit(std::move(request), std::move(callbacks));
  is_submitting_ = false;
  return !refused_;
}

void EmbeddingJob::OnFinish(size_t index, const swarm::FinishRequest& finish) {
  Part& part = parts_[index];
  part.is_running = false;
  --running_;
  const bool failed = finish.reason == swarm::FinishReason::kError;
  if (is_submitting_ && failed) {
    refused_ = finish;
    return;
  }
  if (is_over_) return;
  // Another server refuses later than a core of this one does.
  if (finish.has_no_room && running_ > 0) return waiting_.push_front(index);
  if (failed) return Fail(ErrorOf(finish));
  auto vector = part.pooler.Finish();
  if (!vector.ok()) return Fail(api::FromError(vector.error()));
  const size_t length = work_.inputs[index].size();
  if (part.pooler.position_count() != length)
    return Fail(Overloaded("Rows of " + std::to_string(part.pooler.position_count()) + " of " +
                           std::to_string(length) + " tokens came. Ask again."));
  made_.vectors[index] = std::move(vector).value();
  made_.prompt_tokens += finish.prompt_tokens;
  if (++done_ < parts_.size()) return GoOnLater();
  made_.total = MonotonicNow() - begun_;
  made_.load = up_at_ - begun_;
  End();
  responder_->Send(respond_(made_));
}

void EmbeddingJob::Fail(const api::ApiError& error) {
  End();
  responder_->Send(refuse_(error));
}

// Nothing of it is wanted any more.
void EmbeddingJob::End() {
  is_over_ = true;
  timer_.Cancel();
  waiting_.clear();
  for (const Part& part : parts_)
    if (part.is_running && part.id != 0) context_.generator.Cancel(part.id);
}

}  // namespace weft::server
