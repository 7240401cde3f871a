// What follows from an event, whatever it was: leavers go, plans are looked for, layers placed,
// steps sent.
#include <algorithm>

#include "swarm/core/state.h"

namespace weft::swarm {
namespace {

// Idle for so long before active workers are timed, so that a chat's pauses are left alone.
constexpr Duration kIdleBeforeMeasuring = Seconds(2);

// A request of an earlier core waits for the devices that hold its session, as long as reading its
// prompt again would take: so it waits at most twice as long as whoever knows what will come. Never
// shorter than a device takes to come back, which tries every 250 ms; nor much longer than a client
// is to see a pause.
constexpr Duration kLeastSessionWait = Milliseconds(400);
constexpr Duration kMostSessionWait = Seconds(2);
// Whoever lacks no more than this holds all of a session: so many rows take no longer than a step
// or two.
constexpr size_t kFewRows = 32;

}  // namespace

void State::Settle(bool after_frame) {
  if (sessions.active_count() > 0) last_busy = now;
  if (!after_frame) LetLeaversGo();  // before planning, which looks for who replaces them
  planning.SetLive(sessions.CountLiveRows(), sessions.active_count());
  planning.SetRunningError(pipelines.errors().running.value());
  planning.SetSteady(requests.has_last_try(), now);
  planning.Settle(now);
  experts.Settle(now);
  DropStagedWithoutRoom();
  // What a frame changed of the lifecycle (its worker was dropped, say) is no small matter, nor is
  // the end of a request: those that computed it may have to be checked.
  const bool small = after_frame && lifecycle.version() == pipelines_version &&
                     settled_requests == requests.ended_count();
  settled_requests = requests.ended_count();
  if (!small) SettlePlans();
  // A device's wish to run the model for all comes as a frame.
  const bool ends_beside = !side_plans.plans().empty() && !planning.AllowsSidePlans();
  if (!small || ends_beside) side_plans.Settle(now);
  bool has_new_plans =
      lifecycle.version() != pipelines_version || side_plans.version() != side_version;
  if (has_new_plans) UpdatePipelines();
  if (lifecycle.CanSwap() && experts.Covers(*lifecycle.staged()) &&
      (!lifecycle.serves() || pipelines.HasCaughtUp(*lifecycle.staged()))) {
    lifecycle.Swap(now);
    LetLeaversGo();
    changes.Note({.standbys = true});
    experts.Settle(now);
    side_plans.Settle(now);
    UpdatePipelines();
    has_new_plans = true;
  }
  // Now, for a plan beside may have ended because its devices are the active plan's since the swap.
  if (has_new_plans) pipelines.PlaceLeft();
  // Hosts know what workers may answer before these are asked.
  if (!small)
    for (auto& [id, worker] : roster) pipelines.LimitMessages(worker);
  const bool steady = planning.IsSteady(lifecycle.active());
  if (requests.has_last_try() && !steady) requests.HoldLastTries(now);
  session_wait_ends.reset();
  if (lifecycle.active()) {
    const auto may_begin = [&](const ActiveRequest& each) {
      return (steady || !each.last_try) && !WaitsForSession(each);
    };
    requests.Admit(now, may_begin, [this](Session& session) { pipelines.Place(session); });
    pipelines.Pump(now);
  }
  SettleTouched();
  if (!small) timer = FindTimer();
}

// A plan of hubs takes over when all its experts have holders. Where these have no place beside the
// layers of both plans it never does, and the active one may lack them, too. Example: a hub moves
// to one of two devices that hold all experts, and the other one is lost.
void State::DropStagedWithoutRoom() {
  if (!lifecycle.staged() || !lifecycle.active() || !lifecycle.active()->is_hub() ||
      experts.coverage().missing_bytes == 0)
    return;
  lifecycle.DropStaged(now);
  changes.Note({.plan_at = now + options.timeouts.replan_interval});
  experts.Settle(now);
}

// Not where a plan that serves has it all, nor where nobody can bring more of it: a device that is
// not back, or one that is and has not begun to serve beside the others. A device that has stood by
// may hold a part of it.
bool State::WaitsForSession(const ActiveRequest& active) {
  const auto& resume = active.request.resume;
  if (!resume || active.request.wants_rows()) return false;
  const size_t known = active.request.prompt_ids.size() + active.request.answer_ids.size();
  const size_t most = known - std::min(known, kFewRows);
  if (pipelines.Serve(sessions.claims().HoldersOf(*resume, most))) return false;
  const std::vector<BindingId> holders = sessions.claims().BindingsOf(resume->session);
  const bool more_may_come =
      placements.Awaits(now) ||
      std::ranges::any_of(holders, [this](BindingId each) { return !pipelines.Uses(each); });
  const Instant until = WaitsUntil(active);
  if (!more_may_come || until <= now) return false;
  session_wait_ends = std::min(session_wait_ends.value_or(until), until);
  return true;
}

Instant State::WaitsUntil(const ActiveRequest& active) const {
  const size_t known = active.request.prompt_ids.size() + active.request.answer_ids.size();
  const Duration reading = pipelines.ReadingTime(static_cast<uint32_t>(known));
  return active.last_token_at + std::clamp(reading, kLeastSessionWait, kMostSessionWait);
}

std::vector<Action> State::TakeActions() {
  if (changes.TakeView()) outbox.Add(SwarmChanged{});
  return outbox.Take();
}

// Those whose layers are elsewhere, and those that have no more time. One after the other: who
// stays may take over from who goes.
void State::LetLeaversGo() {
  const auto may_go = [this](const auto& each) {
    const auto& [id, worker] = each;
    return worker.leaves_at && (!lifecycle.IsUsed(id) || now >= *worker.leaves_at);
  };
  for (auto leaver = std::find_if(roster.begin(), roster.end(), may_go); leaver != roster.end();
       leaver = std::find_if(roster.begin(), roster.end(), may_go)) {
    const WorkerId id = leaver->first;
    SayGoodbye(leaver->second);
    Forget(id);
  }
}

void State::SettlePlans() {
  EndDenied();
  planning.TellWhole(now);
  // Ten minutes without a device are for swarms that have others.
  if (!lifecycle.serves() && !planning.problem().empty())
    probation.Hasten(options.timeouts.aside_alone);
  const bool preparing = lifecycle.staged() || planning.under_way();
  const bool idle = lifecycle.serves() && now - last_busy >= kIdleBeforeMeasuring;
  if (measuring.Settle(!preparing, idle, requests.ended_count(), now))
    changes.Note({.standbys = true});
}

void State::SettleTouched() {
  for (const WorkerId id : pipelines.TakeTouched()) {
    Worker* worker = roster.Find(id);
    if (worker == nullptr) continue;
    pipelines.LimitMessages(*worker);
    const Instant due = health.NextOf(*worker);
    if (due != Instant{INT64_MAX} && (!timer || due < *timer)) timer = due;
  }
}

// Frames follow the plans that serve now. What a binding that is gone held is forgotten.
void State::UpdatePipelines() {
  pipelines_version = lifecycle.version();
  side_version = side_plans.version();
  pipelines.SetPlans(lifecycle.active(), lifecycle.Followers(), side_plans.plans());
  const auto is_gone = [this](const auto& stage) {
    const Worker* worker = roster.Find(stage.worker);
    if (placements.Holds(stage.binding)) return false;
    return worker == nullptr || worker->Find(stage.binding) == nullptr;
  };
  sessions.claims().Forget(is_gone);
  for (const auto& session : sessions.sessions()) {
    // A worker that goes on with some of its layers still holds what it has computed in them.
    if (const SwarmPlan* active = lifecycle.active())
      for (const PlanStage& stage : active->stages)
        if (!stage.IsHole()) session->Track(stage.bound());
    session->Forget(is_gone);
  }
}

std::optional<Instant> State::FindTimer() const {
  std::optional<Instant> next;
  const auto consider = [&next](std::optional<Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  consider(health.next_timer());
  consider(planning.next_timer());
  consider(measuring.next_timer());
  consider(lifecycle.next_timer());
  consider(probation.next_return());
  consider(placements.next_timer());
  consider(requests.next_timer());
  consider(session_wait_ends);
  consider(sessions.claims().next_timer());
  consider(wishes.next_timer());
  consider(served_hubs.next_timer());
  for (const auto& [id, worker] : roster) {
    consider(worker.limit->until);
    consider(worker.loading->paused_until);
    consider(worker.leaves_at);
  }
  return next;
}

}  // namespace weft::swarm
