// Who stands by, and with which layers of the active plan.
#include <algorithm>

#include "swarm/plan/planning.h"

namespace weft::swarm {

// One that cannot be timed, because it holds a single layer, may stand by: better than nobody. Hubs
// that the server serves hold no experts: it is better off with these than with a hub's layers.
bool Planning::MayStandBy(const Worker& worker, LayerForm form, Instant now) const {
  if (IsHub(form) && worker.offer.rows_to_server) return false;
  return (worker.measure->phase == MeasureJob::Phase::kNone || worker.measure->again) &&
         (IsEligible(worker, form, now) ||
          (MayCompute(worker, form, now) && (worker.SpeedKnown() || worker.measure->tried) &&
           checks_.MayServe(worker)));
}

// Who stands by with which stage of the active plan. Each worker that runs no part of it holds as
// many stages as fit its offer, those first that fewest others stand by with and whose loss would
// cost most for their bytes: loading takes as long as the bytes, and replaying as the reads, so the
// cost for a byte is that of compute, C / W. Then workers of the plan, in what their own stage
// leaves free. A spare that is smaller than every stage holds a part of one.
void Planning::ChooseStandbys(Instant now) {
  changes_.TakeStandbys();
  const SwarmPlan& active = *lifecycle_.active();
  std::vector<Worker*> holders;
  for (const bool spare : {true, false})
    for (auto& [id, worker] : roster_)
      if (MayStandBy(worker, active.form(), now) && lifecycle_.IsUsed(id) != spare)
        holders.push_back(&worker);
  std::vector<uint32_t> copies(active.stages.size(), 0), layer_copies(costs_.layer_count(), 0);
  for (Worker* worker : holders) {
    const bool is_small =
        !lifecycle_.IsUsed(worker->id) &&
        std::none_of(active.stages.begin(), active.stages.end(), [&](const PlanStage& stage) {
          return lifecycle_.FitsBesidePlans(*worker, stage.layers());
        });
    lifecycle_.KeepStandbys(*worker, [&](LayerSpan layers) {
      return std::any_of(active.stages.begin(), active.stages.end(), [&](const PlanStage& stage) {
        if (is_small)
          return stage.form == layers.form && stage.first <= layers.first &&
                 layers.end <= stage.end;
        return stage.layers() == layers && stage.worker != worker->id;
      });
    });
    std::vector<size_t> order;
    for (size_t i = 0; i < active.stages.size(); ++i)
      if (active.stages[i].worker != worker->id) order.push_back(i);
    const auto worth = [&](size_t i) {
      const PlanStage& stage = active.stages[i];
      return costs_.Cost(stage.layers()) /
             static_cast<double>(costs_.MemoryBytes(1, stage.layers()) + 1);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return copies[a] != copies[b] ? copies[a] < copies[b] : worth(a) > worth(b);
    });
    if (is_small) {
      StandByWithPart(*worker, order, layer_copies, now);
      continue;
    }
    for (const size_t i : order)
      if (lifecycle_.StandBy(*worker, active.stages[i].layers(), now)) ++copies[i];
  }
}

// Of the first of these stages of which it can hold anything: as many layers as fit, from the first
// one that fewest spares hold already. Three spares that hold 4 layers each so stand by with 4, 4
// and 2 of a stage of 10, and fill its place together (Lifecycle::FillFromStandbys). What is kept
// together is held whole or not at all: all its layers have as many copies, so that the first of
// the fewest begins it.
void Planning::StandByWithPart(Worker& worker, const std::vector<size_t>& stages,
                               std::vector<uint32_t>& layer_copies, Instant now) {
  const auto hold = [&](LayerSpan layers) {
    if (!lifecycle_.StandBy(worker, layers, now)) return false;
    for (uint32_t layer = layers.first; layer < layers.end; ++layer) ++layer_copies[layer];
    return true;
  };
  for (const Binding& binding : *worker.bindings)
    if (binding.standby && hold(binding.layers)) return;
  const auto least = [&](size_t i) {
    const PlanStage& stage = lifecycle_.active()->stages[i];
    return std::min_element(layer_copies.begin() + stage.first, layer_copies.begin() + stage.end);
  };
  std::vector<size_t> order = stages;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return *least(a) < *least(b); });
  for (const size_t i : order) {
    const auto first = static_cast<uint32_t>(least(i) - layer_copies.begin());
    for (uint32_t end = lifecycle_.active()->stages[i].end; end > first; --end)
      if (costs_.MayCut(end) && hold({first, end, lifecycle_.active()->form()})) return;
  }
}

}  // namespace weft::swarm
