// What workers say: each message goes to the part whose business it is, and what follows from it
// for other parts is done here.
#include <algorithm>

#include "swarm/core/state.h"
#include "swarm/workers/is_answer.h"

namespace weft::swarm {
namespace {

// Progress alone refreshes the picture this often at most.
constexpr Duration kProgressInterval = Milliseconds(100);

}  // namespace

Status State::OnControl(Worker& worker, const wire::pb::WorkerMessage& message) {
  using Kind = wire::pb::WorkerMessage;
  const auto kind = message.kind_case();
  const bool is_answer = !worker.ready || IsAnswer(worker, message, costs.layer_count());
  if (!is_answer) TRY(members.CountUnasked(worker, now));
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
      return lifecycle.OnDownloadProgress(worker, message.download_progress(), now);
    case Kind::kLayerDownloaded:
      return lifecycle.OnLayerDownloaded(worker, message.layer_downloaded(), now);
    case Kind::kMeasured: {
      ASSIGN_OR_RETURN(const bool is_news, measuring.OnMeasured(worker, message.measured(), now));
      OnVerdicts();
      if (!is_news) return OkStatus();
      changes.Note({.standbys = true, .plan_at = now});
      return OkStatus();
    }
    case Kind::kPrepared:
      TRY(lifecycle.OnPrepared(worker, message.prepared(), now));
      if (is_answer) members.NoteLoaded(worker);
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
      if (!is_answer && worker.Find(BindingId(message.failed().binding())) == nullptr &&
          message.failed().binding() <= worker.newest_binding->value())
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
  // Whoever comes back is no newcomer.
  const auto is_back = [this](const std::string& device) { return placements.Expects(device); };
  if (const Status admitted = members.Admit(worker, connect, is_back, now); !admitted.ok()) {
    if (admitted.error().code() == ErrorCode::kCancelled)
      outbox.Add(CloseWorker{worker.id, admitted.error().message()});
    else
      members.Refuse(worker.id, admitted.error());
    return Forget(worker.id);
  }
  EndOldLine(worker, connect);
  lifecycle.OnConnect(worker);
  checks.OnConnect(worker);
  placements.OnConnect(worker, connect, now);
  planning.lifetimes().NoteJoined(worker.probation_key, now);
  health.Ping(worker, now);
  const bool is_waited_for = sessions.active_count() > 0 && !lifecycle.serves();
  const Duration debounce =
      is_waited_for ? options.timeouts.join_debounce_waited_for : options.timeouts.join_debounce;
  changes.Note({.view = true, .standbys = true, .experts = true, .plan_at = now + debounce});
}

// A device that names what another line of it holds has lost that line, and the network has not
// told so yet. It shall not have to drop what it holds because of that.
void State::EndOldLine(const Worker& worker, const wire::pb::Connect& connect) {
  const auto old = std::find_if(roster.begin(), roster.end(), [&](const auto& each) {
    const Worker& other = each.second;
    if (other.id == worker.id || !other.ready || other.offer.device_id != worker.offer.device_id)
      return false;
    return std::any_of(connect.held().begin(), connect.held().end(), [&](const auto& claim) {
      return other.Find(BindingId(claim.id())) != nullptr;
    });
  });
  if (old == roster.end()) return;
  const WorkerId id = old->first;
  outbox.Add(CloseWorker{id, "its device has come back on another line"});
  Forget(id, /*returns=*/true);
}

void State::OnLeaving(Worker& worker, const wire::pb::Leaving& leaving) {
  LetGo(worker, leaving.draining());
}

Status State::OnFailed(Worker& worker, const wire::pb::Failed& failed) {
  const std::string problem = PrintableText(failed.message(), 500);
  const LayerSpan layers = LayersOf(worker, BindingId(failed.binding()));
  lifecycle.EndDownload(worker, false);
  if (failed.binding() == 0) {
    // A check of one that serves is asked again; what is late was put down to it already.
    const bool is_done = worker.measure->again || worker.measure->late_answers > 0;
    measuring.OnFailed(worker, now);
    OnVerdicts();
    if (is_done) return OkStatus();
    lifecycle.EndDownload(worker, true);
  } else {
    const bool no_memory = failed.code() == ErrorCodeName(ErrorCode::kOutOfMemory);
    const double factor = worker.memory->weight_factor;
    const uint64_t expert_bytes = worker.holding->memory_bytes;
    if (experts.OnFailed(worker, failed)) {
      if (no_memory)
        members.LowerMemory(worker,
                            expert_bytes + costs.MemoryBytes(factor, worker.layers->loaded,
                                                             worker.layers->loaded_hubs),
                            now);
    } else {
      const Binding* binding = worker.Find(BindingId(failed.binding()));
      if (binding && no_memory)
        members.LowerMemory(worker, costs.MemoryBytes(factor, binding->layers), now);
      TRY(lifecycle.OnFailed(worker, failed, now));
    }
  }
  OnLoadFault(worker, failed.code(), problem, layers);
  changes.Note({.plan_at = now});
  return OkStatus();
}

Status State::OnGroupsLost(Worker& worker, const wire::pb::GroupsLost& lost) {
  ASSIGN_OR_RETURN(const std::vector<LostGroups> losses, pipelines.OnGroupsLost(worker, lost));
  for (const LostGroups& loss : losses)
    if (Session* session = sessions.Find(loss.session)) requests.NoteLost(*session, loss.groups);
  return OkStatus();
}

Status State::OnWholeFrame(Worker& worker, const Slice& message) {
  ASSIGN_OR_RETURN(const wire::WholeFrame frame, wire::DecodeWholeFrame(message.bytes()));
  if (const auto* run_here = std::get_if<wire::RunHere>(&frame)) {
    TRY(members.CountUnasked(worker, now));
    wishes.OnWish(worker, *run_here, now);
    return OkStatus();
  }
  const auto* tokens = std::get_if<wire::Tokens>(&frame);
  if (!tokens) return Error(ErrorCode::kInvalidData, "A frame came that only the server sends.");
  ASSIGN_OR_RETURN(const GeneratedTokens generated, pipelines.OnTokens(worker, *tokens, now));
  checks.NoteServed(worker);
  if (!generated.token_ids.empty()) {
    members.NoteSuccess(worker);
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
  ASSIGN_OR_RETURN(const Pipeline::StepResult result, pipelines.OnResult(worker, frame, now));
  if (result.serves) checks.NoteServed(worker);
  if (result.not_finite > 0) {
    OnFailedRuns(worker, result.failed,
                 "It gave " + std::to_string(result.not_finite) + " values behind layer " +
                     std::to_string(result.last_layer) + " that are not finite.",
                 true);
    return OkStatus();
  }
  // What a device that stands by is fed comes to nothing that anybody would see.
  if (result.serves) members.NoteSuccess(worker);
  CheckSlowdown(worker);
  for (const StageOutput& output : result.outputs) TRY(requests.OnOutput(output, now));
  if (now - last_change >= kProgressInterval) {
    last_change = now;
    changes.Note({.view = true});
  }
  return OkStatus();
}

}  // namespace weft::swarm
