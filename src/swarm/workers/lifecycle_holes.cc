// Holes of the active plan, and who fills them: standbys, or devices that come back.
#include <algorithm>

#include "swarm/workers/lifecycle.h"

namespace weft::swarm {

bool Lifecycle::OnWorkerGone(WorkerId gone, Instant now) {
  bool hurt = false;
  if (active_ && active_->StageOf(gone)) {
    hurt = true;
    for (PlanStage& stage : active_->stages)
      if (stage.worker == gone) {
        stage.worker = {};
        stage.binding = {};
      }
  }
  if (staged_ && staged_->StageOf(gone)) {
    DropStaged(now);
    hurt = true;
  }
  // One that is still there is not to be found standing by with what it has loaded.
  if (Worker* unwanted = roster_.Find(gone))
    DropBindings(*unwanted, [](const Binding&) { return true; });
  FillHoles();
  if (active_ && std::all_of(active_->stages.begin(), active_->stages.end(),
                             [](const PlanStage& stage) { return stage.IsHole(); }))
    active_.reset();
  Changed();  // it may have stood by
  if (staged_ && downloading_ && !serves()) BeginPreparing(now);
  return hurt;
}

// Neighbouring holes are one: whoever stands by may hold layers of both.
void Lifecycle::FillHoles() {
  for (uint32_t at = 0; active_ && at < costs_.layer_count();) {
    uint32_t end = at, stage_end = at;
    for (const PlanStage& stage : active_->stages) {
      if (stage.first == end && stage.IsHole()) end = stage.end;
      if (stage.first == at) stage_end = stage.end;
    }
    if (end > at) FillFromStandbys(at, end);
    at = std::max(end, stage_end);
  }
}

bool Lifecycle::Relieve(WorkerId late) {
  if (!active_) return false;
  bool relieved = false;
  for (PlanStage& stage : active_->stages) {
    if (stage.worker != late) continue;
    const auto [worker, ready] = WhoRelieves(stage);
    if (ready == nullptr) continue;
    Find(*roster_.Find(late), stage.binding)->standby = true;
    ready->standby = false;
    stage.worker = worker;
    stage.binding = ready->id;
    stage.number = ready->stage;
    relieved = true;
  }
  if (relieved) Changed();
  return relieved;
}

// Somebody idle; else somebody who is being fed, which is what it needs anyway, unless it owes an
// answer itself.
std::pair<WorkerId, Binding*> Lifecycle::WhoRelieves(const PlanStage& stage) {
  std::pair<WorkerId, Binding*> found{WorkerId(), nullptr};
  for (auto& [id, worker] : roster_) {
    if (id == stage.worker || IsUsed(id) || !worker.ready || worker.IsProbed()) continue;
    const auto& steps = worker.steps->in_flight;
    const bool idle = worker.steps->idle();
    if (!idle && (found.second != nullptr || steps.empty() || steps.front().was_late)) continue;
    for (Binding& binding : worker.bindings.edit())
      if (binding.loaded && binding.layers == stage.layers()) found = {id, &binding};
    if (found.first == id && idle) break;
  }
  return found;
}

void Lifecycle::Restore(SwarmPlan plan, BindingId last_binding) {
  last_binding_ = last_binding;
  if (!plan.stages.empty()) restored_ = std::move(plan);
}

// The stage that the worker ran before the restart, if nobody else runs it by now.
void Lifecycle::TakeBack(const Worker& worker, Instant now) {
  if (!restored_ || staged_ || IsUsed(worker.id)) return;
  for (const PlanStage& before : restored_->stages) {
    const Binding* binding = worker.Find(before.binding);
    if (binding == nullptr || binding->layers != before.layers()) continue;
    if (!active_) {
      active_ = restored_;
      for (PlanStage& stage : active_->stages) stage.binding = {};
      last_swap_ = now;
    }
    for (PlanStage& stage : active_->stages)
      if (stage.IsHole() && stage.layers() == before.layers()) {
        stage.worker = worker.id;
        stage.binding = binding->id;
        stage.number = binding->stage;
        Find(*roster_.Find(worker.id), binding->id)->standby = false;
      }
    return;
  }
}

void Lifecycle::Resume(Worker& worker, const std::vector<Binding>& held, const WorkerMemory& before,
                       Instant now) {
  worker.memory.edit().weight_factor = before.weight_factor;
  worker.memory.edit().reported_bytes = before.reported_bytes;
  for (const Binding& binding : held) {
    worker.bindings.edit().push_back(binding);
    worker.bindings.edit().back().standby = true;
    worker.newest_binding.edit() = std::max(*worker.newest_binding, binding.id);
    worker.layers.edit().NoteLoaded(binding.layers);
    worker.layers.edit().NoteCached(binding.layers);
  }
  TakeBack(worker, now);
  FillHoles();
  if (!active_ && !staged_) {
    // Everything that is needed may have come back.
    active_.emplace();
    PlanStage& all = active_->stages.emplace_back();
    all.end = costs_.layer_count();
    if (!held.empty()) all.form = held.front().layers.form;
    if (!FillFromStandbys(0, costs_.layer_count())) active_.reset();
    last_swap_ = now;
  }
  // What was being loaded for a hole that is no more is not wanted.
  if (serves() && staged_) DropStaged(now);
  Changed();
}

// Puts loaded standbys into the hole [first, end) if they fill all of it: from the front the one
// that reaches furthest, each worker once. Workers that serve already come behind those that do
// not.
bool Lifecycle::FillFromStandbys(uint32_t first, uint32_t end) {
  std::vector<PlanStage> filling;
  for (uint32_t at = first; at < end;) {
    PlanStage best;
    bool best_is_used = true;
    for (const auto& [id, worker] : roster_) {
      const bool taken =
          std::any_of(filling.begin(), filling.end(),
                      [holder = id](const PlanStage& stage) { return stage.worker == holder; });
      if (taken || !worker.ready) continue;
      const bool used = IsUsed(id);
      for (const Binding& binding : *worker.bindings) {
        if (!binding.loaded || IsPlanned(binding.id) || binding.layers.first != at ||
            binding.layers.end > end || binding.layers.form != active_->form())
          continue;
        const bool better = binding.layers.end > best.end ||
                            (binding.layers.end == best.end && best_is_used && !used);
        if (!better) continue;
        best = {id, at, binding.layers.end, 0, binding.id, binding.stage, active_->form()};
        best_is_used = used;
      }
    }
    if (!best.worker.is_set()) return false;
    filling.push_back(best);
    at = best.end;
  }
  std::vector<PlanStage> stages;
  for (const PlanStage& stage : active_->stages) {
    if (stage.first < first || stage.first >= end) {
      stages.push_back(stage);
    } else if (stage.first == first) {
      stages.insert(stages.end(), filling.begin(), filling.end());
    }
  }
  active_->stages = std::move(stages);
  for (const PlanStage& stage : filling) {
    Worker& worker = *roster_.Find(stage.worker);
    Find(worker, stage.binding)->standby = false;
    worker.times.ClearBinding();
  }
  Changed();
  return true;
}

}  // namespace weft::swarm
