// Layers that did not get onto a device. A full disk, or a cache that cannot be written, is told by
// name with the first failure, and the device is asked for no more for a while: repeating cannot
// cure it, others are asked at once, and what it runs goes on. What is damaged may be the server's
// own file: that is looked at before the device is blamed. A repair that takes far longer than it
// should is given up, and somebody else asked.
#include <algorithm>

#include "swarm/core/state.h"

namespace weft::swarm {

// Of the failure of this binding; all layers where it is not known which.
LayerSpan State::LayersOf(const Worker& worker, BindingId id) const {
  const Binding* binding = worker.Find(id);
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
  members.PauseLoading(worker, problem, false, now);
  if (!is_package) return;
  doubts.Accuse({worker.id, layers, problem});
}

// Whoever said so of layers that are in order has a line, or an engine, that damages them.
void State::On(const LayersChecked& event) {
  for (const Accusation& wrong : doubts.OnChecked(event))
    NoteFailure(*roster.Find(wrong.worker), wrong.problem);
  changes.Note({.view = true});
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
      members.PauseLoading(*worker, "It took too long to load layers that an answer waits for.",
                           true, now);
  }
}

}  // namespace weft::swarm
