// Requests from acceptance to their one terminal event: the queue, admission into sessions, tokens
// out of the last stage's outputs, cancelling, failing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "base/result.h"
#include "swarm/changes.h"
#include "swarm/flow/fair_queue.h"
#include "swarm/flow/pipeline.h"
#include "swarm/flow/session.h"
#include "swarm/flow/token_rate.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/snapshot.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

struct RequestCounts {
  uint64_t completed = 0, failed = 0, generated_tokens = 0;
  uint64_t side_tokens = 0;    // of those: that plans beside the active one made
  uint64_t forced_tokens = 0;  // of those: that nobody drew (sampling/constraint.h)
  uint64_t lost_groups = 0;
  // Of requests that have ended; those that came of a kept or another session.
  uint64_t prompt_tokens = 0, cached_prompt_tokens = 0;
  TimeBuckets queued_times;  // until a request got its first session
};

class Requests {
 public:
  // Keeps references; all outlive it.
  Requests(const CoreOptions& options, Roster& roster, SessionTable& sessions, Changes& changes,
           Outbox& outbox)
      : options_(options),
        roster_(roster),
        sessions_(sessions),
        changes_(changes),
        outbox_(outbox) {}

  // Queues the request, or ends it at once with a clear error.
  void Submit(Request request, Instant now);
  // Ends a waiting or running request as cancelled; unknown or finished ids are ignored.
  void Cancel(RequestId id, Instant now);
  // Gives sessions to waiting requests that may begin, by turns (fair_queue.h). `place_at` chooses
  // the session's plan.
  void Admit(Instant now, const FairQueue::MayBegin& may_begin,
             const std::function<void(Session&)>& place_at);
  // The request is tried once more, by a plan of devices that stay: it waits until that serves.
  void TryOnceMore(Session& session, Instant now);
  // Those on their last try that run wait again: the plan is none for them any more.
  void HoldLastTries(Instant now);
  bool has_last_try() const { return last_tries_ > 0; }
  // An output of the last stage. An error: its payload is malformed, the worker that sent it cannot
  // be trusted.
  Status OnOutput(const StageOutput& output, Instant now);
  // Tokens that a worker with the whole model has chosen.
  void OnGenerated(const GeneratedTokens& generated, Instant now);
  // A row of the session had to do without so many neuron groups.
  void NoteLost(Session& session, uint32_t groups) {
    counts_.lost_groups += groups;
    if (session.active) session.active->lost_groups += groups;
  }
  void Fail(Session& session, Error error, Instant now);

  // Since then some device may have given rows that were wrong. Where they were, this sentence says
  // so, and who was told anything that may have come of them hears it; what others ask is computed
  // once more, and nothing of it is kept for later.
  void Doubt(Instant since, const std::string& problem, Instant now);
  // Ends those that got no token for too long.
  void EndOverdue(Instant now);
  // Devices forget sessions of an earlier core that nobody has wanted.
  void DropOverdueClaims(Instant now);
  std::optional<Instant> next_timer() const;

  std::optional<RequestProgress> ProgressOf(RequestId id) const;
  uint32_t waiting_count() const { return static_cast<uint32_t>(queue_.waiting().size()); }
  const RequestCounts& counts() const { return counts_; }
  uint64_t ended_count() const { return ended_; }
  double TokensPerSecond(Instant now) const { return rate_.PerSecond(now); }

 private:
  Status Check(const Request& request) const;
  Status CheckKeep(const Request& request) const;
  Status BeginAnswer(ActiveRequest& active) const;
  // Why the queue has no room for a request of this client.
  struct NoRoom {
    Error error;
    bool over_share = false;
  };
  std::optional<NoRoom> FindNoRoom(const std::string& client) const;
  bool MakeRoom(const ActiveRequest& next, Instant now);
  void Pause(Session& session, Instant now);
  uint32_t CountActive(const ClientShare& share) const;
  void Finish(const ActiveRequest& active, FinishReason reason, std::optional<Error> error);
  void Refuse(const ActiveRequest& active, NoRoom no_room);
  void Tell(FinishRequest end, const ActiveRequest& active);
  void EndSession(Session& session, FinishReason reason, std::optional<Error> error, Instant now);
  void EndKept(Session& session, Instant now);
  void InvalidateSessions(const std::vector<SessionId>& ids);

  // An error comes before a token of the output has been emitted.
  Status TakeOutput(Session& session, const StageOutput& output, Instant now);
  Status OnArgmax(Session& session, ByteSpan payload, Instant now);
  Status OnCandidates(Session& session, const wire::CandidatesResult& result, Instant now);
  Status OnDraw(Session& session, const wire::DrawResult& result, Instant now);
  Status OnLogits(Session& session, const StageOutput& output, Instant now);
  void Recompute(Session& session);
  void Emit(Session& session, EmitToken token, Instant now);
  void Append(Session& session, EmitToken token, Instant now);
  void AppendForced(Session& session, Instant now);

  const CoreOptions& options_;
  Roster& roster_;
  SessionTable& sessions_;
  Changes& changes_;
  Outbox& outbox_;
  FairQueue queue_;
  // Of those that wait, as asked for since something changed last (ProgressOf).
  mutable std::optional<std::map<RequestId, uint32_t>> ahead_;
  uint32_t last_tries_ = 0;  // requests with last_try
  uint64_t ended_ = 0;       // however
  RequestCounts counts_;
  TokenRate rate_;
};

}  // namespace weft::swarm
