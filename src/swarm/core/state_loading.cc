// Layers that did not get onto a device. A full disk, or a cache that cannot be written, is told by
// name with the first failure, and the device is asked for no more for a while: repeating cannot
// cure it, others are asked at once, and what it runs goes on. What is damaged may be the server's
// own file: that is looked at before the device is blamed. A repair that takes far longer than it
// should is given up, and somebody else asked.
#include <algorithm>

#include "swarm/core/state.h"

namespace weft::swarm {

// Of the failure that names this epoch; all layers where it is not known which.
LayerSpan State::LayersOf(const Worker& worker, BindingId epoch) const {
  const Binding* binding = worker.Find(epoch);
  return binding ? binding->layers : LayerSpan{0, costs.layer_count()};
}

// By the names of src/base/result.h: "io" is the device's disk or cache, the other two are what the
// server has given it, or has not.
void State::OnLoadFault(Worker& worker, const std::string& code, const std::string& problem,
                        LayerSpan layers) {
  const bool is_disk = code == ErrorCodeName(ErrorCode::kIo);
  const bool is_package =
      code == ErrorCodeName(ErrorCode::kInvalidData) || code == ErrorCodeName(ErrorCode::kNotFound);
  if (!is_disk && !is_package) return NoteFailure(worker, problem);
  PauseLoading(worker, problem, false);
  if (!is_package) return;
  accusations.push_back({worker.id, layers, problem});
  if (std::exchange(checking, checking ? checking : layers)) return;
  outbox.Add(CheckLayers{layers.first, layers.end});
}

// Whoever said so of layers that are in order has a line, or an engine, that damages them.
void State::On(const LayersChecked& event) {
  if (!checking) return;
  const LayerSpan checked = *std::exchange(checking, std::nullopt);
  package_problem = event.problem.value_or("");
  std::vector<Accusation> open = std::exchange(accusations, {});
  for (Accusation& accusation : open) {
    const bool is_known =
        checked.first <= accusation.layers.first && accusation.layers.end <= checked.end;
    Worker* worker = roster.Find(accusation.worker);
    if (worker == nullptr || event.problem) continue;
    if (is_known)
      NoteFailure(*worker, accusation.problem);
    else
      accusations.push_back(std::move(accusation));
  }
  if (!accusations.empty()) {
    checking = accusations.front().layers;
    outbox.Add(CheckLayers{checking->first, checking->end});
  }
  changes.Note({.view = true});
}

void State::PauseLoading(Worker& worker, const std::string& problem, bool is_slow) {
  worker.record.problem = problem;
  const auto doublings = static_cast<int>(std::min(worker.loading.pauses++, 20u));
  const Duration pause =
      std::min(options.timeouts.aside_max, options.timeouts.load_pause * (int64_t{1} << doublings));
  worker.loading.paused_until = now + pause;
  worker.loading.is_slow = is_slow;
  changes.Note({.view = true, .standbys = true, .experts = true, .plan_at = now});
}

// Those that have not loaded their part are passed over as long as others can take it.
void State::EndSlowRepair() {
  if (!lifecycle.RepairOverdue(now)) return;
  const SwarmPlan overdue = *lifecycle.staged();
  lifecycle.DropStaged(now);
  for (const PlanStage& stage : overdue.stages) {
    Worker* worker = roster.Find(stage.worker);
    const Binding* binding = worker ? worker->Find(stage.binding) : nullptr;
    if (worker != nullptr && (binding == nullptr || !binding->loaded))
      PauseLoading(*worker, "It took too long to load layers that an answer waits for.", true);
  }
}

// Whether somebody may be asked again.
bool State::ResumeLoading() {
  bool resumed = false;
  for (auto& [id, worker] : roster) {
    if (!worker.loading.paused_until || now < *worker.loading.paused_until) continue;
    worker.loading.paused_until.reset();
    changes.Note({.experts = true});
    resumed = true;
  }
  return resumed;
}

}  // namespace weft::swarm
