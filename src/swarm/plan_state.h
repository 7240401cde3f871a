// A plan as the core carries it out: ranges of layers in order, each bound to a worker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "swarm/binding.h"

namespace weft::swarm {

// A range of layers and who runs it. Without a worker it is a hole: the stages in front of it go
// on, as far as history holds what they give, while somebody is found for it.
struct PlanStage {
  WorkerId worker;
  uint32_t first = 0, end = 0;         // layers [first, end)
  double predicted_us = 0;             // per token: overhead, compute and transfer
  BindingId binding;                   // 0: a hole, or not asked for yet
  uint32_t number = 0;                 // Binding::stage
  LayerForm form = LayerForm::kWhole;  // the same for all stages of a plan
  bool is_measured = false;            // predicted_us is of what was measured of the worker

  bool IsHole() const { return !worker.is_set(); }
  LayerSpan layers() const { return {{first, end}, form}; }
  BoundStage bound() const { return {binding, worker, number, layers()}; }
};

struct SwarmPlan {
  std::vector<PlanStage> stages;  // contiguous from layer 0 to the last
  double predicted_us = 0;        // per token

  const PlanStage* StageOf(WorkerId worker) const {
    for (const PlanStage& stage : stages)
      if (stage.worker == worker) return &stage;
    return nullptr;
  }
  bool Uses(BindingId binding) const {
    return std::any_of(stages.begin(), stages.end(),
                       [binding](const PlanStage& stage) { return stage.binding == binding; });
  }
  LayerForm form() const { return stages.empty() ? LayerForm::kWhole : stages.front().form; }
  bool is_hub() const { return IsHub(form()); }
  bool HasHole() const {
    return std::any_of(stages.begin(), stages.end(),
                       [](const auto& stage) { return stage.IsHole(); });
  }
};

// A plan that serves beside the active one. Its stages never change: it comes and goes whole.
struct SidePlan {
  PlanId id = kActivePlan;
  SwarmPlan plan;
};

}  // namespace weft::swarm
