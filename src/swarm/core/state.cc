#include "swarm/core/state.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/network.h"
#include "swarm/workers/strangers.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

// Progress alone refreshes the picture this often at most.
constexpr Duration kProgressInterval = Milliseconds(100);
// Idle for so long before active workers are timed, so that a chat's pauses are left alone.
constexpr Duration kIdleBeforeMeasuring = Seconds(2);
// A worker that answered so many steps has made up for its failures.
constexpr uint32_t kRedeemingSteps = 16;
// A stage this much slower than predicted asks for another plan.
constexpr double kSlowdownFactor = 1.5;
constexpr double kSlowdownLeastUs = 2000;
constexpr const char* kConnectFirst = "The first message was not Connect.";

}  // namespace

State::State(CoreOptions core_options)
    : options(std::move(core_options)),
      costs(options),
      probation(options),
      joins(options),
      checks(options, costs, roster),
      sessions(options.session_count, options.model.is_recurrent(),
               options.model.is_recurrent() ? options.marks : 0),
      lifecycle(options, costs, roster, changes, outbox),
      popularity(options.model, options.popularity),
      experts(options, costs, roster, lifecycle, probation, popularity, changes, outbox),
      hub_reports(options, costs, roster, popularity, changes),
      planning(options, costs, roster, lifecycle, probation, checks, changes, outbox),
      wishes(options, roster, checks, planning, changes, outbox),
      measuring(options, costs, roster, lifecycle, checks, changes, outbox),
      pipeline(options, costs, roster, sessions, outbox),
      health(options, roster, outbox),
      requests(options, roster, sessions, changes, outbox),
      view({options, costs, roster, lifecycle, planning, wishes, experts, sessions, pipeline,
            requests}),
      placements({options, costs, roster, popularity, sessions, lifecycle, planning, measuring,
                  checks, outbox}) {
  CHECK(options.context_length >= 1 && options.session_count >= 1 && options.failure_limit >= 1);
  CHECK(options.model.vocabulary >= 1 && options.model.hidden_columns >= 1);
  CHECK(options.prefill_chunk_rows >= 1);
  planning.lifetimes().Restore(options.lifetimes);
}

// ---- events ----

void State::On(const WorkerConnected& event) {
  CHECK(roster.Find(event.worker) == nullptr, "a worker id was used twice");
  if (roster.ready_count() >= options.worker_limit) return Refuse(event.worker, NoRoom());
  const std::string network = event.network.empty() ? NetworkOf(event.address) : event.network;
  if (const auto oldest = StrangerToGo(roster, network, options)) {
    outbox.Add(CloseWorker{*oldest, "other connections took its place before it said Connect"});
    Forget(*oldest);
  }
  Worker& worker = roster.Add(event.worker);
  worker.id = event.worker;
  worker.address = event.address;
  worker.network = event.network;
  worker.stranger_network = network;
  worker.trusted = event.trusted;
  worker.connected_at = worker.last_heard = now;
  worker.steps.last_at = Instant{INT64_MIN};
  worker.layers.cached = worker.layers.cached_hubs = worker.layers.requested =
      worker.layers.loaded = worker.layers.loaded_hubs = LayerSet(costs.layer_count());
  *outbox.Control(event.worker).mutable_init() = MakeInit(options);
  changes.Note({.view = true});
}

void State::On(const WorkerControl& event) {
  Worker* worker = roster.Find(event.worker);
  if (!worker) return;  // already given up
  worker->last_heard = now;
  Status status = OnControl(*worker, event.message);
  if (!status.ok()) Drop(event.worker, status.error().message(), true);
}

bool State::PassOn(const Event& event) {
  const auto* data = std::get_if<WorkerData>(&event);
  if (data == nullptr || !wire::IsShardMessage(data->frame.bytes())) return false;
  Worker* worker = roster.Find(data->worker);
  if (worker == nullptr) return false;
  const Experts::Forwarded forwarded = experts.Forward(*worker, data->frame);
  if (forwarded == Experts::Forwarded::kNowhere && !CountUnasked(*worker).ok()) return false;
  worker->last_heard = now;
  return forwarded != Experts::Forwarded::kWrong;
}

void State::On(const WorkerData& event) {
  Worker* worker = roster.Find(event.worker);
  if (!worker) return;
  if (!worker->ready) return Drop(event.worker, kConnectFirst, true);
  worker->last_heard = now;
  if (wire::IsShardMessage(event.frame.bytes())) {
    const Status counted = CountUnasked(*worker);
    if (!counted.ok()) return Drop(event.worker, counted.error().message(), true);
    return OnWrongShards(*worker);
  }
  Status status = wire::IsGenerationFrame(event.frame.bytes()) ? OnGeneration(*worker, event.frame)
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
  // What it has said meanwhile comes now.
  if (!event.held) worker->last_heard = now;
  worker->held_back_at = event.held ? std::optional(now) : std::nullopt;
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

void State::On(const TimerFired&) {
  for (const Casualty& casualty : health.Tick(now))
    Drop(casualty.worker, casualty.reason, casualty.refuses);
  for (auto& [id, worker] : roster)
    if (measuring.IsOverdue(worker, now)) {
      const bool serves = worker.measure.again;
      measuring.EndOverdue(worker, now);
      if (!serves) NoteFailure(worker, "It did not measure its speed in time.");
    }
  OnVerdicts();
  for (const WorkerId late : health.TakeLate(now)) lifecycle.Relieve(late);
  if (placements.Expire(now)) UpdatePipeline();
  requests.EndOverdue(now);
  wishes.EndOverdue(now);
  if (lifecycle.DownloadOverdue(now)) {
    lifecycle.DropStaged(now);
    changes.Note({.plan_at = now + options.timeouts.replan_interval});
  }
  if (probation.TakeReturn(now)) {
    changes.Note({.experts = true, .plan_at = now});
  }
  if (RestoreMemory() || ResumeLoading()) changes.Note({.plan_at = now});
  EndSlowRepair();
}

void State::Settle(bool after_frame) {
  if (sessions.active_count() > 0) last_busy = now;
  if (!after_frame) LetLeaversGo();  // before planning, which looks for who replaces them
  planning.SetLiveRows(sessions.CountLiveRows());
  planning.SetRunningError(pipeline.errors().running.value());
  planning.SetSteady(requests.has_last_try(), now);
  planning.Settle(now);
  experts.Settle(now);
  // What a frame changed of the lifecycle (its worker was dropped, say) is no small matter, nor is
  // the end of a request: those that computed it may have to be checked.
  const bool small = after_frame && lifecycle.version() == pipeline_version &&
                     settled_requests == requests.ended_count();
  settled_requests = requests.ended_count();
  if (!small) SettlePlans();
  if (lifecycle.version() != pipeline_version) UpdatePipeline();
  if (lifecycle.CanSwap() && experts.Covers(*lifecycle.staged()) &&
      (!lifecycle.serves() || pipeline.HasCaughtUp(*lifecycle.staged()))) {
    lifecycle.Swap(now);
    LetLeaversGo();
    changes.Note({.standbys = true});
    experts.Settle(now);
    UpdatePipeline();
  }
  // Hosts know what workers may answer before these are asked.
  if (!small)
    for (auto& [id, worker] : roster) pipeline.LimitMessages(worker);
  const bool steady = planning.IsSteady(lifecycle.active());
  if (requests.has_last_try() && !steady) requests.HoldLastTries(now);
  if (lifecycle.active()) {
    requests.Admit(now, steady);
    pipeline.Pump(now);
  }
  SettleTouched();
  if (!small) timer = FindTimer();
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
    outbox.Add(CloseWorker{id, "it left"});
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
  for (const WorkerId id : pipeline.TakeTouched()) {
    Worker* worker = roster.Find(id);
    if (worker == nullptr) continue;
    pipeline.LimitMessages(*worker);
    const Instant due = health.NextOf(*worker);
    if (due != Instant{INT64_MAX} && (!timer || due < *timer)) timer = due;
  }
}

// Frames follow the plan that is active now. What a binding that is gone held is forgotten.
void State::UpdatePipeline() {
  pipeline_version = lifecycle.version();
  pipeline.SetPlan(lifecycle.active(), lifecycle.Followers());
  for (const auto& session : sessions.sessions()) {
    // A worker that goes on with some of its layers still holds what it has computed in them.
    if (const SwarmPlan* active = lifecycle.active())
      for (const PlanStage& stage : active->stages)
        if (!stage.IsHole()) session->Track(stage.bound());
    session->Forget([this](const StageProgress& stage) {
      const Worker* worker = roster.Find(stage.worker);
      if (placements.Holds(stage.binding)) return false;
      return worker == nullptr || worker->Find(stage.binding) == nullptr;
    });
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
  consider(wishes.next_timer());
  for (const auto& [id, worker] : roster) {
    consider(worker.memory.limit_until);
    consider(worker.loading.paused_until);
    consider(worker.leaves_at);
  }
  return next;
}

// ---- messages ----

Error State::NoRoom() const {
  return Error(ErrorCode::kUnavailable, "This swarm has " + std::to_string(roster.ready_count()) +
                                            " workers already, its limit: try again later.");
}

// It is told why, and closed.
void State::Refuse(WorkerId id, const Error& why) {
  auto& refused = *outbox.Control(id).mutable_refused();
  refused.set_code(std::string(ErrorCodeName(why.code())));
  refused.set_message(why.message());
  outbox.Add(CloseWorker{id, why.message()});
}

Status State::OnControl(Worker& worker, const wire::pb::WorkerMessage& message) {
  using Kind = wire::pb::WorkerMessage;
  const auto kind = message.kind_case();
  const bool is_answer = !worker.ready || IsAnswer(worker, message);
  if (!is_answer) TRY(CountUnasked(worker));
  if (kind == Kind::kLeaving) {
    OnLeaving(worker, message.leaving());
    return OkStatus();
  }
  if ((kind == Kind::kConnect) == worker.ready)
    return Error(ErrorCode::kInvalidData, worker.ready ? "Connect came twice." : kConnectFirst);
  switch (kind) {
    case Kind::kConnect:
      OnConnect(worker, message.connect());
      return OkStatus();
    case Kind::kDownloadProgress:
      return OnDownloadProgress(worker, message.download_progress());
    case Kind::kLayerDownloaded:
      return OnLayerDownloaded(worker, message.layer_downloaded());
    case Kind::kMeasured: {
      ASSIGN_OR_RETURN(const bool is_news, measuring.OnMeasured(worker, message.measured(), now));
      OnVerdicts();
      if (!is_news) return OkStatus();
      changes.Note({.standbys = true, .plan_at = now});
      return OkStatus();
    }
    case Kind::kPrepared:
      TRY(lifecycle.OnPrepared(worker, message.prepared(), now));
      if (is_answer) worker.loading.pauses = 0;
      if (!lifecycle.staged()) changes.Note({.plan_at = now});
      return OkStatus();
    case Kind::kExpertsHeld:
      return experts.OnHeld(worker, message.experts_held());
    case Kind::kGroupsLost:
      return OnGroupsLost(worker, message.groups_lost());
    case Kind::kLossReport:
      return hub_reports.OnLossReport(worker, message.loss_report());
    case Kind::kHolderStats:
      return hub_reports.OnHolderStats(worker, message.holder_stats(), now);
    case Kind::kFailed:
      // Of what was dropped, or of nothing: no failure of anything.
      if (!is_answer && worker.Find(message.failed().epoch()) == nullptr &&
          message.failed().epoch() <= worker.newest_binding)
        return OkStatus();
      return OnFailed(worker, message.failed());
    case Kind::kStepFailed:
      return OnStepFailed(worker, message.step_failed());
    case Kind::kPong:
      return health.OnPong(worker, message.pong(), now);
    default:
      return Error(ErrorCode::kInvalidData, "A control message of unknown kind came.");
  }
}

void State::OnConnect(Worker& worker, const wire::pb::Connect& connect) {
  Result<Offer> offer = CheckConnect(connect, options);
  if (offer.ok() && roster.ready_count() >= options.worker_limit) offer = NoRoom();
  // Whoever comes back is no newcomer.
  if (offer.ok() && !worker.network.empty() && !placements.Expects(offer->device_id) &&
      !joins.TryJoin(worker.network, now))
    offer = Error(ErrorCode::kUnavailable,
                  "More than " + std::to_string(options.joins_at_once) +
                      " devices have joined from this address in a short time: try again in a "
                      "few seconds.");
  if (!offer.ok()) {
    Refuse(worker.id, offer.error());
    return Forget(worker.id);
  }
  worker.ready = true;
  worker.offer = std::move(offer).value();
  worker.probation_key = worker.offer.device_id.empty() ? worker.address + "/" + worker.offer.name
                                                        : worker.offer.device_id;
  checks.OnConnect(worker);
  worker.memory.weight_factor = worker.offer.weight_factor;
  worker.memory.limit = worker.offer.memory_bytes;
  for (const uint32_t layer : worker.offer.cached_layers)
    worker.layers.NoteCached({layer, layer + 1});
  placements.OnConnect(worker, connect, now);
  planning.lifetimes().NoteJoined(worker.probation_key, now);
  health.Ping(worker, now);
  const bool is_waited_for = sessions.active_count() > 0 && !lifecycle.serves();
  const Duration debounce =
      is_waited_for ? options.timeouts.join_debounce_waited_for : options.timeouts.join_debounce;
  changes.Note({.view = true, .standbys = true, .experts = true, .plan_at = now + debounce});
}

void State::OnLeaving(Worker& worker, const wire::pb::Leaving& leaving) {
  const bool others = std::any_of(roster.begin(), roster.end(), [&](const auto& each) {
    return each.first != worker.id && each.second.ready && !each.second.leaves_at;
  });
  if (!leaving.draining() || !worker.ready || !lifecycle.IsUsed(worker.id) || !others) {
    outbox.Add(CloseWorker{worker.id, "it left"});
    return Forget(worker.id);
  }
  if (worker.leaves_at) return;
  worker.leaves_at = now + options.timeouts.leave_limit;
  changes.Note({.view = true, .experts = true});
  // Who stands by with its layers takes over at once; else they are loaded elsewhere while it goes
  // on.
  if (!lifecycle.Relieve(worker.id)) changes.Note({.plan_at = now});
}

Status State::OnDownloadProgress(Worker& worker, const wire::pb::DownloadProgress& progress) {
  if (progress.done_bytes() > progress.total_bytes() || progress.total_bytes() > (1ull << 50))
    return Error(ErrorCode::kInvalidData,
                 "DownloadProgress reports " + std::to_string(progress.done_bytes()) + " of " +
                     std::to_string(progress.total_bytes()) +
                     " bytes, expected at most the total and a total of at most 2^50.");
  const bool advanced = progress.total_bytes() != worker.layers.download_total_bytes ||
                        progress.done_bytes() > worker.layers.downloaded_bytes;
  worker.layers.downloaded_bytes = progress.done_bytes();
  worker.layers.download_total_bytes = progress.total_bytes();
  // Slow but alive: a download that moves is not cut off.
  if (advanced) {
    const Instant least = now + options.timeouts.prepare_min;
    for (Binding& binding : worker.bindings)
      binding.answer_deadline = std::max(binding.answer_deadline, least);
    worker.experts.answer_deadline = std::max(worker.experts.answer_deadline, least);
  }
  changes.Note({.view = true});
  return OkStatus();
}

Status State::OnLayerDownloaded(Worker& worker, const wire::pb::LayerDownloaded& downloaded) {
  if (downloaded.layer() >= costs.layer_count())
    return Error(ErrorCode::kInvalidData,
                 "LayerDownloaded names layer " + std::to_string(downloaded.layer()) +
                     ", expected less than " + std::to_string(costs.layer_count()) + ".");
  worker.layers.requested.Remove(downloaded.layer());
  worker.layers.NoteCached({downloaded.layer(), downloaded.layer() + 1});
  lifecycle.OnDownload(now);
  changes.Note({.view = true});
  return OkStatus();
}

Status State::OnFailed(Worker& worker, const wire::pb::Failed& failed) {
  const std::string problem = PrintableText(failed.message(), 500);
  const LayerSpan layers = LayersOf(worker, failed.epoch());
  worker.layers.downloaded_bytes = worker.layers.download_total_bytes = 0;
  if (failed.epoch() == 0) {
    // A check of one that serves is asked again; what is late was put down to it already.
    const bool is_done = worker.measure.again || worker.measure.late_answers > 0;
    measuring.OnFailed(worker, now);
    OnVerdicts();
    if (is_done) return OkStatus();
    worker.layers.requested.Clear();
  } else {
    const bool no_memory = failed.code() == ErrorCodeName(ErrorCode::kOutOfMemory);
    const double factor = worker.memory.weight_factor;
    const uint64_t expert_bytes = worker.experts.memory_bytes;
    if (experts.OnFailed(worker, failed)) {
      if (no_memory)
        LowerMemory(worker, expert_bytes + costs.MemoryBytes(factor, worker.layers.loaded,
                                                             worker.layers.loaded_hubs));
    } else {
      const Binding* binding = worker.Find(failed.epoch());
      if (binding && no_memory) LowerMemory(worker, costs.MemoryBytes(factor, binding->layers));
      TRY(lifecycle.OnFailed(worker, failed, now));
    }
  }
  OnLoadFault(worker, failed.code(), problem, layers);
  changes.Note({.plan_at = now});
  return OkStatus();
}

// What it could not hold is not asked of it again for a while. Not for ever: a browser may have
// been short of memory for a moment, and a swarm without slack would stay down for that.
void State::LowerMemory(Worker& worker, uint64_t bytes) {
  worker.memory.limit = std::min(worker.memory.limit, bytes * 9 / 10);
  const auto doublings = static_cast<int>(std::min(worker.memory.failures++, 20u));
  worker.memory.limit_until =
      now + std::min(options.timeouts.aside_max,
                     options.timeouts.aside_first * (int64_t{1} << doublings));
}

// Whether a worker may be asked for its whole offer again.
bool State::RestoreMemory() {
  bool restored = false;
  for (auto& [id, worker] : roster) {
    if (!worker.memory.limit_until || now < *worker.memory.limit_until) continue;
    worker.memory.limit = worker.offer.memory_bytes;
    worker.memory.limit_until.reset();
    changes.Note({.experts = true});
    restored = true;
  }
  return restored;
}

Status State::OnGroupsLost(Worker& worker, const wire::pb::GroupsLost& lost) {
  ASSIGN_OR_RETURN(const std::vector<LostGroups> losses, pipeline.OnGroupsLost(worker, lost));
  for (const LostGroups& loss : losses)
    if (Session* session = sessions.Find(loss.session)) requests.NoteLost(*session, loss.groups);
  return OkStatus();
}

Status State::OnGeneration(Worker& worker, const Slice& message) {
  ASSIGN_OR_RETURN(const wire::GenerationFrame frame, wire::DecodeGeneration(message.bytes()));
  if (const auto* run_here = std::get_if<wire::RunHere>(&frame)) {
    TRY(CountUnasked(worker));
    wishes.OnWish(worker, *run_here, now);
    return OkStatus();
  }
  const auto* tokens = std::get_if<wire::Tokens>(&frame);
  if (!tokens) return Error(ErrorCode::kInvalidData, "A frame came that only the server sends.");
  ASSIGN_OR_RETURN(const GeneratedTokens generated, pipeline.OnTokens(worker, *tokens, now));
  if (!generated.token_ids.empty()) {
    NoteSuccess(worker);
    CheckSlowdown(worker);
  }
  if (generated.live) requests.OnGenerated(generated, now);
  if (now - last_change >= kProgressInterval) {
    last_change = now;
    changes.Note({.view = true});
  }
  return OkStatus();
}

Status State::OnResult(Worker& worker, const Slice& frame) {
  ASSIGN_OR_RETURN(const Pipeline::StepResult result, pipeline.OnResult(worker, frame, now));
  if (result.not_finite > 0) {
    OnFailedRuns(worker, result.failed,
                 "It gave " + std::to_string(result.not_finite) + " values behind layer " +
                     std::to_string(result.last_layer) + " that are not finite.",
                 true);
    return OkStatus();
  }
  // What a device that stands by is fed comes to nothing that anybody would see.
  if (result.serves) NoteSuccess(worker);
  CheckSlowdown(worker);
  for (const StageOutput& output : result.outputs) TRY(requests.OnOutput(output, now));
  if (now - last_change >= kProgressInterval) {
    last_change = now;
    changes.Note({.view = true});
  }
  return OkStatus();
}

// ---- consequences ----

void State::Drop(WorkerId id, const std::string& reason, bool blamed) {
  outbox.Add(CloseWorker{id, reason});
  const Worker& worker = *roster.Find(id);
  if (blamed && worker.ready) probation.NoteFailure(worker.probation_key, now);
  // Silence may be that of the line: what it holds is good when it is back. Wrong answers are not.
  Forget(id, !blamed);
}

// A request that takes device after device down, at the same place, is the likely reason itself.
void State::BlameRequests(const Worker& worker) {
  if (worker.leaves_at) return;
  if (!worker.steps.in_flight.empty()) BlameRequests(worker, worker.steps.in_flight.front());
  for (const SentFrame& sent : worker.steps.generating) BlameRequests(worker, sent);
}

void State::BlameRequests(const Worker& worker, const SentFrame& computing) {
  for (const wire::Run& run : computing.runs) {
    Session* session = sessions.Find(run.session);
    StageProgress* stage = session ? session->Find(computing.epoch) : nullptr;
    if (!stage || !session->active || stage->generation != run.generation) continue;
    const uint32_t position = run.first_position + computing.tokens_made;
    // One that has never served may come and go as it likes, under a new name each time: it says
    // nothing of the request, unless it goes over the same one again.
    if (!worker.steps.has_served && session->active->strangers.insert(worker.probation_key).second)
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
  lifecycle.OnWorkerGone(id, now);
  planning.OnWorkerGone(id, now);
  wishes.OnWorkerGone(id);
  changes.Note({.view = true});
}

void State::NoteFailure(Worker& worker, const std::string& problem) {
  worker.record.problem = problem;
  worker.record.successes = 0;
  changes.Note({.view = true});
  if (!probation.NoteFailure(worker.probation_key, now)) return;
  // Other connections of the same device are left alone until the next plan.
  lifecycle.OnWorkerGone(worker.id, now);
  planning.OnWorkerGone(worker.id, now);
}

// One message that nobody asked it for may be a mistake; three are put down to the device.
void State::OnWrongShards(Worker& worker) {
  constexpr uint32_t kMostWrong = 3;
  worker.record.problem = "It sent an expert message that nobody waits for.";
  changes.Note({.view = true});
  if (++worker.experts.bad_messages != kMostWrong) return;
  worker.experts.bad_messages = 0;
  PutAside(worker, worker.record.problem);
}

void State::NoteSuccess(Worker& worker) {
  if (++worker.record.successes != kRedeemingSteps) return;
  worker.record.problem.clear();
  probation.NoteSuccess(worker.probation_key);
}

void State::CheckSlowdown(Worker& worker) {
  const SwarmPlan* active = lifecycle.active();
  const PlanStage* stage = active ? active->StageOf(worker.id) : nullptr;
  if (!stage || worker.times.stage_us.count() < 8) return;
  const double reference_us = std::max(stage->predicted_us, worker.record.slow_reference_us);
  const double median_us = *worker.times.stage_us.Median();
  if (median_us < kSlowdownFactor * reference_us || median_us < reference_us + kSlowdownLeastUs)
    return;
  worker.record.slow_reference_us = median_us;
  changes.Note({.plan_at = now});
}

}  // namespace weft::swarm
