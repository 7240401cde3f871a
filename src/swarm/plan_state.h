// A plan as the core carries it out: the planner's stages bound to connections.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "swarm/events.h"

namespace weft::swarm {

struct PlanStage {
  WorkerId worker = 0;
  uint32_t first = 0, end = 0;  // layers [first, end)
  double predicted_us = 0;      // per token: overhead, compute and transfer
  bool prepared = false, commit_asked = false, committed = false;
};

struct SwarmPlan {
  uint32_t epoch = 0;  // 0: not announced to anyone yet
  std::vector<PlanStage> stages;
  double predicted_us = 0;  // per token

  const PlanStage* StageOf(WorkerId worker) const {
    for (const PlanStage& stage : stages)
      if (stage.worker == worker) return &stage;
    return nullptr;
  }
  PlanStage* StageOf(WorkerId worker) {
    for (PlanStage& stage : stages)
      if (stage.worker == worker) return &stage;
    return nullptr;
  }
};

}  // namespace weft::swarm
