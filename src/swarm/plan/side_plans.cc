#include "swarm/plan/side_plans.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/check.h"

namespace weft::swarm {

void SidePlans::Settle(Instant now) {
  const size_t ended =
      std::erase_if(plans_, [&](const SidePlan& each) { return !Stands(each.plan, now); });
  bool changed = ended > 0;
  if (changed) NoteWorkers();
  while (auto next = FindNext(now)) {
    plans_.push_back({last_id_ = last_id_.Next(), std::move(*next)});
    NoteWorkers();
    changed = true;
  }
  if (changed) ++version_;
}

void SidePlans::NoteWorkers() {
  for (auto& [id, worker] : roster_)
    worker.serves_beside.edit() = std::ranges::any_of(
        plans_, [id = id](const SidePlan& each) { return each.plan.StageOf(id) != nullptr; });
}

bool SidePlans::Stands(const SwarmPlan& plan, Instant now) const {
  if (!planning_.AllowsSidePlans()) return false;
  return std::ranges::all_of(plan.stages, [&](const PlanStage& stage) {
    const Worker* worker = roster_.Find(stage.worker);
    const Binding* binding = worker ? worker->Find(stage.binding) : nullptr;
    return binding != nullptr && binding->standby && binding->loaded &&
           !lifecycle_.IsUsed(stage.worker) && planning_.MayStayBeside(*worker, now);
  });
}

// The quickest chain of standbys from the first layer to behind the last. With `reach` of a layer
// being the least time in which a row gets there, and each standby [first, end) an edge:
//
//   reach[0] = 0,   reach[end] = min over standbys of (reach[first] + time of a row in it)
//
// A worker has one place in a plan, so an edge of one that is on the way already is left out.
std::optional<SwarmPlan> SidePlans::FindNext(Instant now) const {
  if (!planning_.AllowsSidePlans()) return std::nullopt;
  std::map<uint32_t, std::vector<PlanStage>> edges;
  for (const auto& [id, worker] : roster_) {
    if (*worker.serves_beside || lifecycle_.IsUsed(id) || !planning_.MayServeBeside(worker, now))
      continue;
    for (const Binding& binding : *worker.bindings)
      if (binding.standby && binding.loaded && binding.layers.form == LayerForm::kWhole)
        edges[binding.layers.first].push_back({id, binding.layers.first, binding.layers.end,
                                               costs_.TokenUs(worker, binding.layers), binding.id,
                                               binding.stage, LayerForm::kWhole, true});
  }
  std::map<uint32_t, SwarmPlan> reach = {{0, {}}};
  const uint32_t layer_count = costs_.layer_count();
  // Edges lead to later layers, so what reaches a layer is final when its turn comes.
  for (auto at = reach.begin(); at != reach.end() && at->first < layer_count; ++at) {
    for (const PlanStage& edge : edges[at->first]) {
      if (at->second.StageOf(edge.worker) != nullptr) continue;
      SwarmPlan further = at->second;
      further.stages.push_back(edge);
      further.predicted_us += edge.predicted_us;
      const auto known = reach.find(edge.end);
      if (known == reach.end() || further.predicted_us < known->second.predicted_us)
        reach[edge.end] = std::move(further);
    }
  }
  const auto whole = reach.find(layer_count);
  if (whole == reach.end()) return std::nullopt;
  return std::move(whole->second);
}

}  // namespace weft::swarm
