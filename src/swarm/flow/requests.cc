#include "swarm/flow/requests.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "swarm/flow/asked_of_stage.h"

namespace weft::swarm {
namespace {

Error Invalid(std::string message) {
  return Error(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Status Requests::Check(const Request& request) const {
  if (request.prompt_ids.empty())
    return Invalid("The prompt is empty, expected at least one token.");
  if (request.prompt_ids.size() > options_.context_length)
    return Error(ErrorCode::kLimitExceeded,
                 "The conversation has " + std::to_string(request.prompt_ids.size()) +
                     " tokens; this server's context is " +
                     std::to_string(options_.context_length) +
                     ". Start a new chat, or restart the server with a larger --context.");
  for (const auto* ids : {&request.prompt_ids, &request.answer_ids})
    for (const int32_t id : *ids)
      if (id < 0 || static_cast<uint32_t>(id) >= options_.model.vocabulary)
        return Invalid("The prompt holds token " + std::to_string(id) + ", expected 0 to " +
                       std::to_string(options_.model.vocabulary - 1) + ".");
  if (request.want_last_row && request.max_tokens > 0)
    return Invalid(
        "The row of the prompt's last token is wanted, and tokens behind it; expected "
        "one of the two.");
  if (options_.model.embeds && (!request.wants_rows() || request.max_tokens > 0))
    return Invalid("The model '" + options_.model.name + "' makes embeddings and writes no text.");
  if (request.constraint != nullptr && request.wants_rows())
    return Invalid("A constraint is for answers without the prompt's logits.");
  const bool lacks_logprobs = request.want_logprobs && !request.logprobs_are_known;
  if (!request.answer_ids.empty() && (request.wants_rows() || lacks_logprobs))
    return Invalid("Logits and logprobs of an answer that has begun are not known any more.");
  if (!request.keep.empty()) return CheckKeep(request);
  if (request.max_tokens == 0 && !request.wants_rows())
    return Invalid("max_tokens is 0, expected at least 1.");
  if (request.top_logprobs > sampling::kMaxTopLogprobs)
    return Invalid("top_logprobs is " + std::to_string(request.top_logprobs) +
                   ", expected at most 20.");
  return sampling::Validate(request.sampling);
}

Status Requests::CheckKeep(const Request& request) const {
  if (!request.answer_ids.empty() || request.wants_rows())
    return Invalid("A prefix that is to be kept has no answer and no logits.");
  using Named = std::pair<std::string_view, std::string_view>;
  const Named name(request.salt, request.keep);
  std::set<Named> kept;
  for (const auto& session : sessions_.sessions()) {
    const std::string& as = session->active ? session->active->request.keep : session->kept;
    if (!as.empty()) kept.emplace(session->salt, as);
  }
  for (const ActiveRequest& waiting : queue_.waiting())
    if (!waiting.request.keep.empty()) kept.emplace(waiting.request.salt, waiting.request.keep);
  if (kept.contains(name) || kept.size() + 1 < options_.session_count) return OkStatus();
  return Error(ErrorCode::kOutOfMemory,
               "'" + request.keep + "' cannot be kept: " + std::to_string(kept.size()) +
                   " prefixes are, of the " + std::to_string(options_.session_count) +
                   " conversations that this server has room for, and one is left for answers. "
                   "Forget another one, or restart the server with more --sessions.");
}

std::optional<Requests::NoRoom> Requests::FindNoRoom(const std::string& client) const {
  const size_t total = queue_.waiting().size(), own = queue_.CountOf(client);
  const size_t limit = options_.queue_limit;
  // The server's own are as many as it had accepted before it started again.
  const Room room = !client.empty() ? RoomFor(total, own, limit)
                    : total < limit ? Room::kFree
                                    : Room::kFull;
  if (room == Room::kFree) return std::nullopt;
  if (room == Room::kOverShare)
    return NoRoom{Error(ErrorCode::kUnavailable,
                        "You have " + std::to_string(own) +
                            " requests waiting already, the limit for one client. Try again when "
                            "some of them have been answered."),
                  true};
  return NoRoom{Error(ErrorCode::kUnavailable, "The queue is full: " + std::to_string(total) +
                                                   " requests are waiting already. Try again "
                                                   "later.")};
}

void Requests::Submit(Request request, Instant now) {
  ahead_.reset();
  ActiveRequest active;
  active.last_token_at = now;
  active.prompt_tokens = static_cast<uint32_t>(request.prompt_ids.size());
  active.share = queue_.Enter(request.client);
  Status status = Check(request);
  active.request = std::move(request);
  if (!status.ok()) return Finish(active, FinishReason::kError, std::move(status).error());
  const bool moved = active.request.was_accepted;
  if (auto no_room = moved ? std::nullopt : FindNoRoom(active.request.client))
    return Refuse(active, *std::move(no_room));
  // The last token needs no place in the context: its keys and values are never computed.
  const uint32_t room = options_.context_length - active.prompt_tokens + 1;
  active.max_tokens = std::min(active.request.max_tokens, room);
  active.candidate_count = CandidateCount(active.request, options_);
  active.stage_draws = active.request.constraint == nullptr && MustDraw(active.request, options_);
  active.wants_row = active.request.want_last_row;
  active.generated_tokens = static_cast<uint32_t>(active.request.answer_ids.size());
  status = BeginAnswer(active);
  if (!status.ok()) return Finish(active, FinishReason::kError, std::move(status).error());
  if (active.generated_tokens > 0 && active.answer && active.answer->IsOver())
    return Finish(active, FinishReason::kStop, std::nullopt);
  if (active.generated_tokens > 0 && active.generated_tokens >= active.max_tokens)
    return Finish(active, FinishReason::kLength, std::nullopt);
  if (moved)
    queue_.PushFront(std::move(active));
  else
    queue_.Push(std::move(active));
  changes_.Note({.view = true});
}

// A constraint stands where the tokens have brought it that are known. What came behind them
// without a draw (AppendForced) was told together with the last one.
Status Requests::BeginAnswer(ActiveRequest& active) const {
  const Request& request = active.request;
  if (request.constraint == nullptr) return OkStatus();
  active.answer = request.constraint->Begin();
  active.wants_row = MustSeeLogits(request, options_);
  for (const int32_t id : request.answer_ids)
    if (active.answer->IsOver() || !active.answer->Advance(id))
      return Invalid("The answer so far holds token " + std::to_string(id) +
                     ", which its constraint does not allow there.");
  return OkStatus();
}

uint32_t Requests::CountActive(const ClientShare& share) const {
  const auto& sessions = sessions_.sessions();
  return static_cast<uint32_t>(
      std::count_if(sessions.begin(), sessions.end(), [&](const auto& session) {
        return session->active && session->active->share.get() == &share;
      }));
}

void Requests::TryOnceMore(Session& session, Instant now) {
  session.active->last_try = true;
  ++last_tries_;
  Pause(session, now);
  changes_.Note({.view = true});
}

void Requests::HoldLastTries(Instant now) {
  std::vector<RequestId> held;
  for (const auto& session : sessions_.sessions())
    if (session->active && session->active->last_try) held.push_back(session->active->request.id);
  for (const RequestId id : held) Pause(*sessions_.FindRequest(id), now);
}

void Requests::Admit(Instant now, const FairQueue::MayBegin& may_begin,
                     const std::function<void(Session&)>& place_at) {
  ahead_.reset();
  const auto count = [this](const ClientShare& share) { return CountActive(share); };
  while (const auto next = queue_.Next(count, may_begin)) {
    size_t place = *next;
    if (!sessions_.HasPlace()) {
      if (!MakeRoom(queue_.waiting()[place], now)) return;
      ++place;  // who made room waits in front of all
    }
    ActiveRequest admitted = queue_.Take(place);
    admitted.turn_rows = 0;
    // Until its first token this is when it was accepted.
    if (!admitted.is_paused && admitted.generated_tokens == 0)
      counts_.queued_times.Add(now - admitted.last_token_at);
    std::vector<SessionId> released;
    Session& session = sessions_.Admit(std::move(admitted), released);
    ActiveRequest& active = *session.active;
    // A turn that begins with what an earlier one had computed already gains as much as that costs.
    const size_t again = active.is_paused ? session.tokens.size() - session.completed : 0;
    active.turn_limit = options_.turn_rows + 2 * again;
    place_at(session);
    InvalidateSessions(released);
    changes_.Note({.view = true});
  }
}

// A client without a session waits for none of the others to come to its end: a session of whoever
// has the most goes on later. Where everybody has one, one whose turn is over does.
bool Requests::MakeRoom(const ActiveRequest& next, Instant now) {
  if (CountActive(*next.share) > 0) return false;
  Session* victim = nullptr;
  std::pair<uint32_t, uint64_t> most;
  for (const auto& session : sessions_.sessions()) {
    if (!session->active || session->active->request.want_logits) continue;
    const ActiveRequest& active = *session->active;
    const uint32_t sessions = CountActive(*active.share);
    if (sessions < 2 && active.turn_rows < active.turn_limit) continue;
    // Of one client's sessions the one that loses least; of single ones the longest turn.
    const std::pair rank(sessions, sessions > 1 ? UINT64_MAX - active.turn_rows : active.turn_rows);
    if (victim != nullptr && rank <= most) continue;
    victim = session.get();
    most = rank;
  }
  if (victim == nullptr) return false;
  Pause(*victim, now);
  return true;
}

// Its tokens are known, and what its session holds is of use if it is still there.
void Requests::Pause(Session& session, Instant now) {
  ahead_.reset();
  ActiveRequest active = std::move(*session.active);
  const auto answer = session.tokens.begin() + active.prompt_tokens;
  active.request.answer_ids.assign(answer, session.tokens.end());
  active.is_paused = true;
  queue_.PushFront(std::move(active));
  if (session.completed > 0) return sessions_.MakeIdle(session, now);
  const SessionId id = session.id;
  sessions_.Remove(id);
  InvalidateSessions({id});
}

void Requests::Cancel(RequestId id, Instant now) {
  ahead_.reset();
  const auto& waiting = queue_.waiting();
  for (size_t i = 0; i < waiting.size(); ++i)
    if (waiting[i].request.id == id)
      return Finish(queue_.Take(i), FinishReason::kCancelled, std::nullopt);
  if (Session* session = sessions_.FindRequest(id))
    EndSession(*session, FinishReason::kCancelled, std::nullopt, now);
}

void Requests::DropOverdueClaims(Instant now) {
  InvalidateSessions(sessions_.claims().DropOverdue(now));
}

void Requests::EndOverdue(Instant now) {
  ahead_.reset();
  const Instant least = now - options_.timeouts.token_limit;
  const auto is_overdue = [least](const ActiveRequest& active) {
    return active.last_token_at <= least;
  };
  const Error error(ErrorCode::kUnavailable,
                    "The request was given up: no token came for " +
                        std::to_string(options_.timeouts.token_limit.us / 1'000'000) + " s.");
  for (size_t i = 0; i < queue_.waiting().size();) {
    if (is_overdue(queue_.waiting()[i]))
      Finish(queue_.Take(i), FinishReason::kError, error);
    else
      ++i;
  }
  // What fails is removed from the sessions: they are found first, and ended afterwards.
  std::vector<RequestId> overdue;
  for (const auto& session : sessions_.sessions())
    if (session->active && is_overdue(*session->active))
      overdue.push_back(session->active->request.id);
  for (const RequestId id : overdue) Fail(*sessions_.FindRequest(id), error, now);
}

std::optional<Instant> Requests::next_timer() const {
  std::optional<Instant> first;
  const auto consider = [&first](const ActiveRequest& active) {
    if (!first || active.last_token_at < *first) first = active.last_token_at;
  };
  for (const ActiveRequest& active : queue_.waiting()) consider(active);
  for (const auto& session : sessions_.sessions())
    if (session->active) consider(*session->active);
  if (!first) return std::nullopt;
  return *first + options_.timeouts.token_limit;
}

std::optional<RequestProgress> Requests::ProgressOf(RequestId id) const {
  for (const ActiveRequest& active : queue_.waiting()) {
    if (active.request.id != id) continue;
    RequestProgress progress;
    progress.prompt_tokens = active.prompt_tokens;
    // A server asks for all of them in one go.
    if (!ahead_)
      ahead_ = queue_.CountAhead([this](const ClientShare& share) { return CountActive(share); });
    progress.requests_ahead = ahead_->at(id);
    return progress;
  }
  const Session* session = sessions_.FindRequest(id);
  if (!session) return std::nullopt;
  const uint32_t prompt_tokens = session->active->prompt_tokens;
  return RequestProgress{false, 0, prompt_tokens, std::min(session->completed, prompt_tokens)};
}

void Requests::Fail(Session& session, Error error, Instant now) {
  EndSession(session, FinishReason::kError, std::move(error), now);
}

void Requests::Doubt(Instant since, const std::string& problem, Instant now) {
  const Error error(ErrorCode::kUnavailable,
                    "A device computed a part of this answer and turned out to be wrong: " +
                        problem + " Ask again.");
  ahead_.reset();
  // Of a request that is accepted `last_token_at` is when.
  const auto was_told = [&](const ActiveRequest& active) {
    return !problem.empty() && active.last_token_at >= since &&
           ((active.logits_emitted > 0 && !options_.model.embeds) || active.was_told());
  };
  for (size_t i = 0; i < queue_.waiting().size();) {
    if (was_told(queue_.waiting()[i]))
      Finish(queue_.Take(i), FinishReason::kError, error);
    else
      ++i;
  }
  std::vector<SessionId> removed;
  std::vector<RequestId> failed;
  for (const auto& session : sessions_.sessions()) {
    if (!session->active)
      removed.push_back(session->id);
    else if (was_told(*session->active))
      failed.push_back(session->active->request.id);
    else
      Recompute(*session);
  }
  for (const SessionId id : removed) sessions_.Remove(id);
  InvalidateSessions(removed);
  for (const RequestId id : failed) Fail(*sessions_.FindRequest(id), error, now);
  changes_.Note({.view = true});
}

// Of an embedding nobody has been told anything before all of its rows are there: they come again.
void Requests::Recompute(Session& session) {
  session.Doubt();
  if (options_.model.embeds) session.active->logits_emitted = 0;
}

void Requests::Finish(const ActiveRequest& active, FinishReason reason,
                      std::optional<Error> error) {
  FinishRequest end;
  end.reason = reason;
  end.error = std::move(error);
  Tell(std::move(end), active);
}

void Requests::Refuse(const ActiveRequest& active, NoRoom no_room) {
  FinishRequest end;
  end.reason = FinishReason::kError;
  end.error = std::move(no_room.error);
  end.has_no_room = true;
  end.over_share = no_room.over_share;
  Tell(std::move(end), active);
}

// `end` lacks what the request has come to.
void Requests::Tell(FinishRequest end, const ActiveRequest& active) {
  queue_.Leave(*active.share);
  ++ended_;
  if (active.last_try) --last_tries_;
  if (end.reason == FinishReason::kError)
    ++counts_.failed;
  else if (end.reason != FinishReason::kCancelled)
    ++counts_.completed;
  counts_.prompt_tokens += active.prompt_tokens;
  counts_.cached_prompt_tokens += active.cached_prompt_tokens;
  end.request = active.request.id;
  end.prompt_tokens = active.prompt_tokens;
  end.cached_prompt_tokens = active.cached_prompt_tokens;
  end.generated_tokens = active.generated_tokens;
  if (options_.loss_limit) end.lost_groups = active.lost_groups;
  outbox_.Add(std::move(end));
  changes_.Note({.view = true});
}

void Requests::EndSession(Session& session, FinishReason reason, std::optional<Error> error,
                          Instant now) {
  Finish(*session.active, reason, std::move(error));
  // A failed session's state is not worth trusting, one without positions not worth keeping, and
  // with what only rows were wanted of nobody goes on.
  const bool leads_on = !session.active->request.wants_rows() || session.active->max_tokens > 0;
  if (reason == FinishReason::kError || session.completed == 0 || !leads_on) {
    const SessionId id = session.id;
    sessions_.Remove(id);
    InvalidateSessions({id});
  } else {
    sessions_.MakeIdle(session, now);
  }
}

void Requests::EndKept(Session& session, Instant now) {
  Finish(*session.active, FinishReason::kStop, std::nullopt);
  sessions_.Keep(session, now);
}

void Requests::InvalidateSessions(const std::vector<SessionId>& ids) {
  if (ids.empty()) return;
  for (const auto& [id, worker] : roster_) {
    // One that has no layers now remembers the sessions of those that it had.
    if (!worker.ready || !worker.newest_binding->is_set()) continue;
    auto& message = *outbox_.Control(id).mutable_invalidate_sessions();
    for (const SessionId session : ids) message.add_sessions(session.value());
  }
}

}  // namespace weft::swarm
