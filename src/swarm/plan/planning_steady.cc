// Plans of the devices that stay the longest, for requests that took others down.
#include <algorithm>

#include "swarm/plan/planning.h"

namespace weft::swarm {

void Planning::SetSteady(bool wanted, Instant now) {
  if (wants_steady_ == wanted) return;
  wants_steady_ = wanted;
  steady_more_ = 0;
  steady_.clear();
  job_.reset();
  if (wanted && lifecycle_.staged()) lifecycle_.DropStaged(now);
  changes_.Note({.standbys = true});
  Want(now);
}

bool Planning::CanBeSteady(WorkerId without, Instant now) const {
  return std::any_of(roster_.begin(), roster_.end(), [&](const auto& each) {
    return each.first != without && MayCompute(each.second, LayerForm::kWhole, now);
  });
}

bool Planning::IsSteady(const SwarmPlan* plan) const {
  if (IsChosen(plan)) return true;
  return plan != nullptr &&
         std::all_of(plan->stages.begin(), plan->stages.end(), [this](const PlanStage& stage) {
           return std::find(steady_.begin(), steady_.end(), stage.worker) != steady_.end();
         });
}

std::vector<WorkerId> Planning::Steadiest(std::vector<WorkerId> workers, Instant now) const {
  const auto stay_s = [&](WorkerId id) {
    return lifetimes_.MeanStayS(roster_.Find(id)->probation_key, now);
  };
  std::stable_sort(workers.begin(), workers.end(),
                   [&](WorkerId one, WorkerId other) { return stay_s(one) > stay_s(other); });
  const LayerSpan all = {0, costs_.layer_count()};
  double missing = 1;  // of the model
  size_t count = 0;
  for (; count < workers.size() && missing > 0; ++count) {
    const Worker& worker = *roster_.Find(workers[count]);
    missing -= static_cast<double>(worker.limit->bytes) /
               static_cast<double>(costs_.MemoryBytes(worker.memory->weight_factor, all));
  }
  workers.resize(std::min(workers.size(), count + steady_more_));
  std::sort(workers.begin(), workers.end());
  return workers;
}

}  // namespace weft::swarm
