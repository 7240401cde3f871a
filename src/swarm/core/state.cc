#include "swarm/core/state.h"

#include "base/check.h"
#include "base/network.h"
#include "swarm/workers/strangers.h"
#include "wire/expert_frame.h"

namespace weft::swarm {

State::State(CoreOptions core_options)
    : options(std::move(core_options)),
      costs(options),
      probation(options),
      members(options, costs, roster, probation, changes, outbox),
      doubts(roster, outbox),
      checks(options, costs, roster),
      sessions(options.session_count, options.model.is_recurrent(),
               options.model.is_recurrent() ? options.marks : 0),
      lifecycle(options, costs, roster, changes, outbox),
      popularity(options.model, options.popularity),
      hub_reports(options, costs, roster, popularity, changes),
      served_hubs(options, hub_reports, outbox),
      experts(options, costs, roster, lifecycle, probation, popularity, served_hubs, changes,
              outbox),
      planning(options, costs, roster, lifecycle, probation, checks, members, changes, outbox),
      wishes(options, roster, members, checks, planning, changes),
      measuring(options, costs, roster, lifecycle, checks, changes, outbox),
      side_plans(costs, roster, lifecycle, planning),
      pipelines(options, costs, roster, sessions, outbox),
      health(options, members.successors(), roster, outbox),
      requests(options, roster, sessions, changes, outbox),
      view({options, costs, roster, probation, lifecycle, planning, wishes, experts, sessions,
            pipelines, side_plans, requests}),
      placements({options, costs, roster, members, popularity, sessions, lifecycle, planning,
                  measuring, checks, outbox}) {
  CHECK(options.context_length >= 1 && options.session_count >= 1 && options.failure_limit >= 1);
  CHECK(options.model.vocabulary >= 1 && options.model.hidden_columns >= 1);
  CHECK(options.prefill_chunk_rows >= 1);
  planning.lifetimes().Restore(options.lifetimes);
}

// ---- events ----

void State::On(const WorkerConnected& event) {
  CHECK(roster.Find(event.worker) == nullptr, "a worker id was used twice");
  if (members.IsFull()) return members.Refuse(event.worker, members.NoRoom());
  const std::string network = event.network.empty() ? NetworkOf(event.address) : event.network;
  if (const auto oldest = StrangerToGo(roster, network, options)) {
    outbox.Add(CloseWorker{*oldest, "other connections took its place before it said Connect"});
    Forget(*oldest);
  }
  lifecycle.OnConnected(members.Add(event, network, now));
}

void State::On(const WorkerControl& event) {
  Worker* worker = roster.Find(event.worker);
  if (!worker) return;  // already given up
  members.NoteHeard(*worker, now);
  Status status = OnControl(*worker, event.message);
  if (!status.ok()) Drop(event.worker, status.error().message(), true);
}

bool State::PassOn(const Event& event) {
  const auto* data = std::get_if<WorkerData>(&event);
  if (data == nullptr || !wire::IsShardMessage(data->frame.bytes())) return false;
  Worker* worker = roster.Find(data->worker);
  if (worker == nullptr) return false;
  const Result<Experts::Forwarded> forwarded = experts.Forward(*worker, data->frame, now);
  if (!forwarded.ok()) {
    Drop(data->worker, forwarded.error().message(), true);
    Settle(true);
    return true;
  }
  if (const auto due = served_hubs.next_timer(); due && (!timer || *due < *timer)) timer = due;
  if (*forwarded == Experts::Forwarded::kNowhere && !members.CountUnasked(*worker, now).ok())
    return false;
  members.NoteHeard(*worker, now);
  return *forwarded != Experts::Forwarded::kWrong;
}

void State::On(const WorkerData& event) {
  Worker* worker = roster.Find(event.worker);
  if (!worker) return;
  if (!worker->ready) return Drop(event.worker, kConnectFirst, true);
  members.NoteHeard(*worker, now);
  if (wire::IsShardMessage(event.frame.bytes())) {
    const Status counted = members.CountUnasked(*worker, now);
    if (!counted.ok()) return Drop(event.worker, counted.error().message(), true);
    return OnWrongShards(*worker);
  }
  Status status = wire::IsWholeFrame(event.frame.bytes()) ? OnWholeFrame(*worker, event.frame)
                                                          : OnResult(*worker, event.frame);
  if (!status.ok()) Drop(event.worker, status.error().message(), true);
}

void State::On(const WorkerLost& event) {
  Worker* worker = roster.Find(event.worker);
  if (worker == nullptr) return;
  BlameRequests(*worker);
  Forget(event.worker, true);
}

void State::On(const WorkerHeldBack& event) {
  Worker* worker = roster.Find(event.worker);
  if (worker == nullptr) return;
  members.NoteHeldBack(*worker, event.held, now);
}

void State::On(const RequestSubmitted& event) {
  requests.Submit(event.request, now);
}

void State::On(const RequestCancelled& event) {
  requests.Cancel(event.request, now);
}

void State::On(const PrefixForgotten& event) {
  sessions.Forget(event.salt, event.name);
}

void State::On(const PlanFound& event) {
  planning.OnFound(event, now);
}

void State::On(const ConsentGiven& event) {
  wishes.OnConsent(event.worker, event.allowed, now);
}

void State::On(const WorkerEvicted& event) {
  Worker* worker = roster.Find(event.worker);
  if (worker == nullptr) return;
  members.NoteEvicted(*worker, event.sentence);
  LetGo(*worker, /*drains=*/true);
}

void State::On(const LeadershipChanged& event) {
  members.NoteLeadership(event);
}

void State::On(const TimerFired&) {
  served_hubs.OnTimer(roster, now);
  for (const Casualty& casualty : health.Tick(now))
    Drop(casualty.worker, casualty.reason, casualty.refuses);
  for (auto& [id, worker] : roster)
    if (measuring.IsOverdue(worker, now)) {
      const bool serves = worker.measure->again;
      measuring.EndOverdue(worker, now);
      if (!serves) NoteFailure(worker, "It did not measure its speed in time.");
    }
  OnVerdicts();
  const std::vector<WorkerId> late = health.TakeLate(now);
  for (const WorkerId id : late) pipelines.NoteLate(*roster.Find(id));
  for (const WorkerId id : late) lifecycle.Relieve(id);
  if (placements.Expire(now)) UpdatePipelines();
  requests.EndOverdue(now);
  requests.DropOverdueClaims(now);
  wishes.EndOverdue(now);
  if (lifecycle.DownloadOverdue(now)) {
    lifecycle.DropStaged(now);
    changes.Note({.plan_at = now + options.timeouts.replan_interval});
  }
  if (probation.TakeReturn(now)) {
    changes.Note({.experts = true, .plan_at = now});
  }
  if (!members.RestoreMemory(now)) members.ResumeLoading(now);
  EndSlowRepair();
}

}  // namespace weft::swarm
