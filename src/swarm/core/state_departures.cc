// Workers that are given up, and what follows for the requests that they computed.
#include <algorithm>

#include "swarm/core/state.h"

namespace weft::swarm {
namespace {

// A stage this much slower than predicted asks for another plan.
constexpr double kSlowdownFactor = 1.5;
constexpr double kSlowdownLeastUs = 2000;

}  // namespace

void State::Drop(WorkerId id, const std::string& reason, bool blamed) {
  outbox.Add(CloseWorker{id, reason});
  const Worker& worker = *roster.Find(id);
  if (blamed && worker.ready) probation.NoteFailure(worker.probation_key, now);
  // Silence may be that of the line: what it holds is good when it is back. Wrong answers are not.
  Forget(id, !blamed);
}

void State::LetGo(Worker& worker, bool drains) {
  const bool others = std::any_of(roster.begin(), roster.end(), [&](const auto& each) {
    return each.first != worker.id && each.second.ready && !each.second.leaves_at;
  });
  if (!drains || !worker.ready || !lifecycle.IsUsed(worker.id) || !others) {
    SayGoodbye(worker);
    return Forget(worker.id);
  }
  if (worker.leaves_at) return;
  members.NoteLeaving(worker, now + options.timeouts.leave_limit);
  // Who stands by with its layers takes over at once; else they are loaded elsewhere while it goes
  // on.
  if (!lifecycle.Relieve(worker.id)) changes.Note({.plan_at = now});
}

// An evicted device may come back later, so it is told to try again.
void State::SayGoodbye(const Worker& worker) {
  if (worker.eviction.empty()) return outbox.Add(CloseWorker{worker.id, "it left"});
  members.Refuse(worker.id, Error(ErrorCode::kUnavailable, worker.eviction));
}

// A request that takes device after device down, at the same place, is the likely reason itself.
void State::BlameRequests(const Worker& worker) {
  if (worker.leaves_at) return;
  if (!worker.steps->in_flight.empty()) BlameRequests(worker, worker.steps->in_flight.front());
  for (const SentFrame& sent : worker.steps->generating) BlameRequests(worker, sent);
}

void State::BlameRequests(const Worker& worker, const SentFrame& computing) {
  for (const wire::Run& run : computing.runs) {
    Session* session = sessions.Find(SessionId(run.session));
    StageProgress* stage = session ? session->Find(computing.binding) : nullptr;
    if (!stage || !session->active || stage->generation != run.generation) continue;
    const uint32_t position = run.first_position + computing.tokens_made;
    // One that has never served may come and go as it likes, under a new name each time: it says
    // nothing of the request, unless it goes over the same one again.
    if (!worker.steps->has_served && session->active->strangers.insert(worker.probation_key).second)
      continue;
    auto& victims = session->active->victims;
    if (session->active->victims_at != position) victims.clear();
    session->active->victims_at = position;
    victims.insert(worker.probation_key);
    // It computes alone until it gets further, so that no other request is suspected.
    session->alone = true;
    if (victims.size() < options.kill_limit) continue;
    if (!session->active->last_try && !session->active->request.want_logits &&
        planning.CanBeSteady(worker.id, now)) {
      requests.TryOnceMore(*session, now);
      continue;
    }
    requests.Fail(*session,
                  Error(ErrorCode::kUnavailable,
                        "The request was given up: " + std::to_string(victims.size()) +
                            " devices have gone, one after the other, while they computed its "
                            "position " +
                            std::to_string(position) + "."),
                  now);
  }
}

void State::Forget(WorkerId id, bool returns) {
  const Worker& worker = *roster.Find(id);
  if (worker.ready && worker.leaves_at)
    planning.lifetimes().NoteLeft(worker.probation_key, now);
  else if (worker.ready)
    planning.lifetimes().NoteLost(worker.probation_key, now);
  if (returns) placements.NoteGone(worker, now);
  roster.Remove(id);
  hub_reports.ForgetTimesOf(id);
  served_hubs.Forget(id);
  TakeOut(id);
  wishes.OnWorkerGone(id);
  changes.Note({.view = true});
}

void State::NoteFailure(Worker& worker, const std::string& problem) {
  // Other connections of the same device are left alone until the next plan.
  if (members.NoteFailure(worker, problem, now)) TakeOut(worker.id);
}

// Its layers are a hole from now on, whatever it goes on to say.
void State::TakeOut(WorkerId id) {
  lifecycle.OnWorkerGone(id, now);
  planning.OnWorkerGone(id, now);
}

void State::OnWrongShards(Worker& worker) {
  if (members.NoteWrongMessage(worker)) PutAside(worker, worker.record->problem);
}

void State::CheckSlowdown(Worker& worker) {
  const SwarmPlan* active = lifecycle.active();
  const PlanStage* stage = active ? active->StageOf(worker.id) : nullptr;
  if (!stage || worker.times.stage_us.count() < 8) return;
  const double reference_us = std::max(stage->predicted_us, worker.record->slow_reference_us);
  const double median_us = *worker.times.stage_us.Median();
  if (median_us < kSlowdownFactor * reference_us || median_us < reference_us + kSlowdownLeastUs)
    return;
  members.NoteSlow(worker, median_us, now);
}

}  // namespace weft::swarm
