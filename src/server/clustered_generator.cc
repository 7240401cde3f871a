#include "server/clustered_generator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"

namespace weft::server {
namespace {

using Taken = cluster::Splice::Taken;
using Ending = cluster::Splice::Ending;

// How often it is looked who has waited too long.
constexpr Duration kWaitLookInterval = Milliseconds(250);

}  // namespace

ClusteredGenerator::ClusteredGenerator(Options options, net::EventLoop& loop)
    : options_(options), look_timer_(loop) {}

// Each request stands in front of those that came before: the first one is asked last.
void ClusteredGenerator::FindLeader(cluster::LinkId link, cluster::Incarnation incarnation,
                                    Generator& generator, Place place) {
  if (!leadership_.OnFound(link, incarnation)) return;
  Generator* const former = std::exchange(leader_, &generator);
  place_ = place;
  const auto is_there = [&](const OpenPtr& open) {
    return open->splice.is_asked() && former == &generator;
  };
  std::vector<OpenPtr> all;
  for (const auto& [id, open] : open_)
    if (!is_there(open)) all.push_back(open);
  for (auto open = all.rbegin(); open != all.rend(); ++open) {
    if (former != nullptr && (*open)->splice.is_asked()) LeaveAt(*open, *former);
    if (!(*open)->is_over) Ask(*open);
  }
}

void ClusteredGenerator::LoseLeader(cluster::LinkId link, bool is_heard) {
  if (!leadership_.OnLost(link)) return;
  Generator* const former = std::exchange(leader_, nullptr);
  std::vector<OpenPtr> asked;
  for (const auto& [id, open] : open_)
    if (open->splice.is_asked()) asked.push_back(open);
  for (const OpenPtr& open : asked) {
    if (is_heard && former != nullptr)
      LeaveAt(open, *former);
    else
      OnLost(open);
  }
}

swarm::RequestId ClusteredGenerator::Submit(swarm::Request request, RequestCallbacks callbacks) {
  const auto open = std::make_shared<Open>();
  open->id = last_id_ = last_id_.Next();
  open->request = std::move(request);
  open->callbacks = std::move(callbacks);
  open->waits_since = MonotonicNow();
  if (ended_with_) {
    Refuse(open, *ended_with_);
    return open->id;
  }
  if (leader_ == nullptr && CountWaiting() >= options_.queue_limit) {
    Fail(open,
         "No server leads the model's devices now, and " + std::to_string(CountWaiting()) +
             " requests wait already. Try again later.",
         /*has_no_room=*/true);
    return open->id;
  }
  open_[open->id] = open;
  LookLater();
  if (leader_ != nullptr) Ask(open);
  return open->id;
}

void ClusteredGenerator::Ask(const OpenPtr& open) {
  const cluster::AttemptId attempt = open->splice.Ask();
  swarm::Request request = open->request;
  const std::vector<int32_t>& known = open->splice.answer();
  request.answer_ids.insert(request.answer_ids.end(), known.begin(), known.end());
  // What the client has it was told with logprobs.
  if (!known.empty()) request.logprobs_are_known = true;
  request.was_accepted |= open->was_accepted;
  if (open->trace) request.resume = open->trace;
  open->asked_at = MonotonicNow();
  if (place_ == Place::kElsewhere) ++counts_.forwarded;
  if (open->was_accepted) ++counts_.moved;
  const swarm::RequestId id = leader_->Submit(std::move(request), CallbacksOf(open, attempt));
  if (!open->splice.is_current(attempt)) return;  // refused, say
  open->id_at_leader = id;
  open->was_accepted |= leader_->has_accepted(id);
}

RequestCallbacks ClusteredGenerator::CallbacksOf(const OpenPtr& open, cluster::AttemptId attempt) {
  RequestCallbacks callbacks;
  const auto alive = std::weak_ptr(alive_);
  callbacks.on_session = [open, attempt](const swarm::SessionTrace& trace) {
    if (!open->splice.is_current(attempt)) return;
    open->trace = trace;
    if (open->callbacks.on_session) open->callbacks.on_session(trace);
  };
  callbacks.on_token = [this, alive, open, attempt](const swarm::EmitToken& token) {
    if (!alive.expired()) OnToken(open, attempt, token);
  };
  callbacks.on_logits = [alive, open, attempt](const swarm::EmitLogits& rows) {
    if (alive.expired() || !open->splice.is_current(attempt) || open->is_cancelled) return;
    open->was_accepted = true;
    open->waits_since.reset();
    if (open->callbacks.on_logits) open->callbacks.on_logits(rows);
  };
  callbacks.on_finish = [this, alive, open, attempt](const swarm::FinishRequest& end) {
    if (!alive.expired()) OnEnd(open, attempt, end);
  };
  callbacks.on_accepted = [open, attempt] {
    if (!open->splice.is_current(attempt)) return;
    open->was_accepted = true;
    if (open->callbacks.on_accepted) open->callbacks.on_accepted();
  };
  callbacks.on_moving = [this, alive, open, attempt] {
    if (!alive.expired() && open->splice.is_current(attempt)) OnLost(open);
  };
  return callbacks;
}

void ClusteredGenerator::OnToken(const OpenPtr& open, cluster::AttemptId attempt,
                                 const swarm::EmitToken& token) {
  if (open->is_cancelled) return;
  const size_t before = open->request.answer_ids.size();
  if (token.index < before) return;
  const uint64_t differences = open->splice.differences();
  const Taken taken = open->splice.OnToken(attempt, token.index - before, token.token_id);
  if (taken == Taken::kTooFar) return AskAgain(open);
  if (open->splice.differences() != differences) {
    ++counts_.differences;
    if (differences == 0)
      LogWarn("token {} of an answer came as {} where another one was told before", token.index,
              token.token_id);
  }
  if (taken != Taken::kGiven) return;
  open->was_accepted = true;
  open->waits_since.reset();
  if (open->callbacks.on_token) open->callbacks.on_token(token);
}

void ClusteredGenerator::AskAgain(const OpenPtr& open) {
  const swarm::RequestId id = open->id_at_leader;
  open->splice.Lose();
  if (leader_ != nullptr) leader_->Cancel(id);
  if (open->splice.HasTriedEnough())
    return Fail(open, "The server that leads the model's devices does not send all of the answer.");
  if (leader_ != nullptr) Ask(open);
}

// A former question that is late rather than lost comes to nothing: its number is over here, and
// the leader is told to cancel it.
void ClusteredGenerator::AskForLost(Instant now) {
  if (leader_ == nullptr) return;
  std::vector<OpenPtr> lost;
  for (const auto& [id, open] : open_)
    if (open->splice.is_asked() && now - open->asked_at >= options_.receipt_limit &&
        !leader_->has_received(open->id_at_leader))
      lost.push_back(open);
  for (const OpenPtr& open : lost) {
    open->splice.Lose();
    leader_->Cancel(open->id_at_leader);
    if (open->is_cancelled) {
      End(open, {});
      continue;
    }
    ++counts_.lost;
    Ask(open);
  }
}

void ClusteredGenerator::OnEnd(const OpenPtr& open, cluster::AttemptId attempt,
                               const swarm::FinishRequest& end) {
  const size_t before = open->request.answer_ids.size();
  const bool has_tokens =
      end.reason == swarm::FinishReason::kStop || end.reason == swarm::FinishReason::kLength;
  std::optional<size_t> generated;
  if (has_tokens && !open->is_cancelled)
    generated = std::max<size_t>(end.generated_tokens, before) - before;
  switch (open->splice.OnEnd(attempt, generated)) {
    case Ending::kStale:
      return;
    case Ending::kShort:
      return AskAgain(open);
    case Ending::kEnd:
      return End(open, end);
  }
}

// The former leader's workers are another one's now.
void ClusteredGenerator::LeaveAt(const OpenPtr& open, Generator& former) {
  const swarm::RequestId id = open->id_at_leader;
  OnLost(open);
  former.Cancel(id);
}

// Of a request that nobody had accepted its client has heard nothing yet.
void ClusteredGenerator::OnLost(const OpenPtr& open) {
  open->splice.Lose();
  open->id_at_leader = swarm::RequestId();
  if (open->is_cancelled) return End(open, {});
  if (!open->waits_since) open->waits_since = MonotonicNow();
  LookLater();
  if (open->was_accepted && open->callbacks.on_moving) open->callbacks.on_moving();
}

// Whoever cancelled it gets the tokens counted that came until then, whatever was computed since.
void ClusteredGenerator::End(const OpenPtr& open, swarm::FinishRequest end) {
  if (std::exchange(open->is_over, true)) return;
  open_.erase(open->id);
  end.request = open->id;
  if (open->is_cancelled) {
    end.reason = swarm::FinishReason::kCancelled;
    end.error.reset();
    end.prompt_tokens = static_cast<uint32_t>(open->request.prompt_ids.size());
    end.generated_tokens =
        static_cast<uint32_t>(open->request.answer_ids.size() + open->splice.answer().size());
  }
  if (on_request_finished_) on_request_finished_(open->request.client, end);
  open->callbacks.on_finish(end);
}

void ClusteredGenerator::EndRequests(const Error& error) {
  ended_with_ = error;
  const auto all = open_;
  for (const auto& [id, open] : all) {
    const bool is_asked = leader_ != nullptr && open->splice.is_asked();
    open->splice.Lose();
    if (is_asked) leader_->Cancel(open->id_at_leader);
    Refuse(open, error);
  }
}

void ClusteredGenerator::Fail(const OpenPtr& open, std::string sentence, bool has_no_room) {
  Refuse(open, Error(ErrorCode::kUnavailable, std::move(sentence)), has_no_room);
}

void ClusteredGenerator::Refuse(const OpenPtr& open, Error error, bool has_no_room) {
  swarm::FinishRequest end;
  end.reason = swarm::FinishReason::kError;
  end.error = std::move(error);
  end.has_no_room = has_no_room;
  End(open, std::move(end));
}

void ClusteredGenerator::Cancel(swarm::RequestId request) {
  const auto found = open_.find(request);
  if (found == open_.end()) return;
  const OpenPtr open = found->second;
  if (std::exchange(open->is_cancelled, true)) return;
  if (leader_ == nullptr || !open->splice.is_asked()) return End(open, {});
  leader_->Cancel(open->id_at_leader);
}

void ClusteredGenerator::ForgetPrefix(const std::string& salt, const std::string& name) {
  if (leader_ != nullptr) leader_->ForgetPrefix(salt, name);
}

const ClusteredGenerator::Open* ClusteredGenerator::Find(swarm::RequestId request) const {
  const auto found = open_.find(request);
  return found == open_.end() ? nullptr : found->second.get();
}

bool ClusteredGenerator::has_accepted(swarm::RequestId request) const {
  const Open* open = Find(request);
  return open != nullptr && open->was_accepted;
}

std::optional<uint32_t> ClusteredGenerator::loading_percent() const {
  return leader_ == nullptr ? std::nullopt : leader_->loading_percent();
}

std::string ClusteredGenerator::message() const {
  if (leader_ != nullptr) return leader_->message();
  return "No server leads the model's devices now.";
}

std::optional<swarm::RequestProgress> ClusteredGenerator::progress(swarm::RequestId request) const {
  const Open* open = Find(request);
  if (open == nullptr || leader_ == nullptr) return std::nullopt;
  return leader_->progress(open->id_at_leader);
}

size_t ClusteredGenerator::CountWaiting() const {
  return static_cast<size_t>(std::ranges::count_if(
      open_, [](const auto& each) { return !each.second->splice.is_asked(); }));
}

void ClusteredGenerator::LookLater() {
  if (std::exchange(looks_, true)) return;
  look_timer_.FireAfter(kWaitLookInterval, [this] { Look(); });
}

void ClusteredGenerator::Look() {
  looks_ = false;
  const Instant now = MonotonicNow();
  AskForLost(now);
  std::vector<OpenPtr> late;
  bool anyone_waits = false;
  for (const auto& [id, open] : open_) {
    if (!open->waits_since) continue;
    anyone_waits = true;
    const bool serves = is_up() || is_loading();
    if (!serves && now - *open->waits_since >= options_.wait) late.push_back(open);
  }
  for (const OpenPtr& open : late) {
    const bool is_asked = open->splice.is_asked() && leader_ != nullptr;
    open->splice.Lose();
    if (is_asked) leader_->Cancel(open->id_at_leader);
    Fail(open, "No server was found within " +
                   std::to_string(static_cast<int64_t>(options_.wait.seconds())) +
                   " s that has the model's devices and answers. " + message());
  }
  if (anyone_waits) LookLater();
}

}  // namespace weft::server
