// Steps that failed, and who is to blame. A device whose numbers fail is out, and another one is
// asked the same; a request fails where two devices say the same of it, or where nobody else could
// be asked. What devices say that failed before and have not made up for it counts for nothing.
// (Devices that go are no failures: BlameRequests.)
#include <algorithm>

#include "swarm/core/state.h"

namespace weft::swarm {

Status State::OnStepFailed(Worker& worker, const wire::pb::StepFailed& failed) {
  ASSIGN_OR_RETURN(const auto live, pipelines.OnStepFailed(worker, failed, now));
  OnFailedRuns(worker, live, PrintableText(failed.message(), 500),
               failed.code() == ErrorCodeName(ErrorCode::kInvalidData));
  return OkStatus();
}

void State::OnFailedRuns(Worker& worker, const Pipeline::FailedRuns& live,
                         const std::string& problem, bool numbers_failed) {
  if (live.runs.empty()) return;  // nobody waits for it any more
  bool refused_guess = false, is_doubted = false;
  for (const wire::Run& run : live.runs) {
    Session& session = *sessions.Find(SessionId(run.session));
    StageProgress& stage = *session.Find(live.binding);
    // What a replacement or a follower is behind is nobody's answer: the request goes on. It may be
    // what is wrong, all the same, so that this counts as what one device says of it.
    if (!session.active || !pipelines.Uses(live.binding)) {
      is_doubted = is_doubted || numbers_failed;
      if (session.active && numbers_failed && live.frame_runs == 1)
        session.active->denials.push_back({worker.probation_key, stage.layers, problem,
                                           !probation.HasFailed(worker.probation_key)});
      refused_guess = session.RewindAfterFailure(stage) || refused_guess;
      continue;
    }
    // Failures without getting any further are what counts.
    if (stage.held_at_failure && stage.held > *stage.held_at_failure)
      session.active->step_failures = 0;
    const uint32_t failures = ++session.active->step_failures;
    if (numbers_failed && live.frame_runs == 1) {
      if (!AskAnother(worker, session, stage.layers, problem)) {
        FailDenied(session, problem);
        continue;
      }
      is_doubted = true;
    } else if (failures > options.step_failure_limit) {
      requests.Fail(session,
                    Error(ErrorCode::kUnavailable,
                          "The request was given up after " + std::to_string(failures) +
                              " failed steps without a token; the last one said: " + problem),
                    now);
      continue;
    } else if (live.frame_runs > 1) {
      // Which of several runs failed is not said: each tries again by itself.
      session.alone = true;
    }
    refused_guess = session.RewindAfterFailure(stage) || refused_guess;
  }
  if (is_doubted) return PutAside(worker, problem);
  // A device that has told of one failure and then refuses to go on where we guessed that it could
  // has not failed twice.
  if (!numbers_failed && !refused_guess && !live.counted) NoteFailure(worker, problem);
}

// Whether somebody else is to compute what the worker could not. Not where another device has said
// the same of some of these layers, and neither has failed before; and not where what others offer
// could not hold the model: asking would only take the plan apart.
bool State::AskAnother(const Worker& worker, Session& session, const LayerSpan& layers,
                       const std::string& problem) {
  std::vector<Denial>& denials = session.active->denials;
  const bool counts = !probation.HasFailed(worker.probation_key);
  const bool is_second =
      counts && std::any_of(denials.begin(), denials.end(), [&](const Denial& denial) {
        return denial.counts && denial.device != worker.probation_key &&
               denial.layers.Overlaps(layers);
      });
  uint64_t offered_bytes = 0;
  for (const auto& [id, other] : roster)
    if (other.ready && !other.leaves_at && other.probation_key != worker.probation_key &&
        !probation.IsAside(other.probation_key, now) && CanCompute(other.offer, options.model))
      offered_bytes += other.limit->bytes;
  denials.push_back({worker.probation_key, layers, problem, counts});
  const LayerSpan all = {0, costs.layer_count(), layers.form};
  return !is_second && offered_bytes >= static_cast<uint64_t>(costs.WeightBytes(all));
}

// It is the request, or the model. Where several devices say so each has failed once all the same:
// of devices that are broken alike the third request is the last one that they fail.
void State::FailDenied(Session& session, const std::string& problem) {
  const std::vector<Denial> denials = std::move(session.active->denials);
  const bool several = std::any_of(denials.begin(), denials.end(), [&](const Denial& denial) {
    return denial.device != denials.front().device;
  });
  requests.Fail(session, Error(ErrorCode::kInvalidData, problem), now);
  for (const Denial& denial : denials) {
    if (probation.Withdraw(denial.device)) {
      changes.Note({.standbys = true, .experts = true, .plan_at = now});
    }
    if (!several) continue;
    for (auto& [id, worker] : roster)
      if (worker.ready && worker.probation_key == denial.device) NoteFailure(worker, problem);
  }
}

// Requests that wait for a second opinion which nobody can give: no plan was found without those
// that have denied them.
void State::EndDenied() {
  if (lifecycle.serves() || lifecycle.staged() || planning.under_way() ||
      planning.problem().empty())
    return;
  std::vector<RequestId> denied;
  for (const auto& session : sessions.sessions())
    if (session->active && !session->active->denials.empty())
      denied.push_back(session->active->request.id);
  for (const RequestId id : denied) {
    Session& session = *sessions.FindRequest(id);
    FailDenied(session, session.active->denials.back().problem);
  }
}

void State::PutAside(Worker& worker, const std::string& problem) {
  members.PutAside(worker, problem, now);
  TakeOut(worker.id);
}

}  // namespace weft::swarm
