#include "planner/losses.h"

#include <algorithm>

#include "planner/cost_model.h"
#include "planner/planner.h"
#include "planner/words.h"

namespace weft::planner {
namespace {

// Everybody but the one that is lost, with the memory that its own stage leaves.
RepairProblem HoleOf(const std::vector<WorkerMetrics>& workers, const Plan& plan,
                     const StageAssignment& lost, uint64_t replay_rows) {
  RepairProblem problem;
  problem.first_layer = lost.first_layer;
  problem.end_layer = lost.end_layer;
  problem.replay_rows = replay_rows;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (static_cast<int>(i) == lost.worker) continue;
    RepairCandidate candidate;
    candidate.worker = static_cast<int>(i);
    candidate.free_bytes = workers[i].memory_bytes;
    for (const StageAssignment& stage : plan.stages) {
      if (stage.worker != candidate.worker) continue;
      candidate.free_bytes -= std::min(stage.memory_bytes, candidate.free_bytes);
    }
    problem.candidates.push_back(std::move(candidate));
  }
  return problem;
}

std::string NamesOf(const std::vector<StageAssignment>& stages,
                    const std::vector<WorkerMetrics>& workers, int layer_count) {
  std::string text;
  for (const StageAssignment& stage : stages) {
    text += (text.empty() ? "" : ", ") + ShownName(workers, stage.worker) + " runs " +
            FormatLayers(stage.first_layer, stage.end_layer, layer_count);
  }
  return text;
}

}  // namespace

std::vector<Loss> FindLosses(const std::vector<LayerCost>& layers,
                             const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                             const Plan& plan, uint64_t replay_rows) {
  // What each runs has been fetched.
  std::vector<WorkerMetrics> holders = workers;
  for (const StageAssignment& stage : plan.stages) {
    std::vector<bool>& cached = holders[static_cast<size_t>(stage.worker)].cached_layers;
    cached.resize(layers.size(), false);
    for (int i = stage.first_layer; i < stage.end_layer; ++i) cached[static_cast<size_t>(i)] = true;
  }
  std::vector<Loss> losses;
  for (const StageAssignment& lost : plan.stages) {
    Loss loss;
    loss.worker = lost.worker;
    loss.repair = RepairPlan(layers, holders, context, HoleOf(workers, plan, lost, replay_rows));
    std::vector<WorkerMetrics> left = holders;
    left[static_cast<size_t>(lost.worker)].compute_speed = 0;  // nothing can be planned with it
    const PlanOutcome outcome = FindPlan(layers, left, context);
    loss.after = outcome.plan;
    loss.missing_memory_bytes = outcome.missing_memory_bytes;
    if (loss.repair) {
      loss.downtime_us = loss.repair->downtime_us;
    } else if (loss.after) {
      loss.downtime_us =
          loss.after->init_us + static_cast<double>(replay_rows) * loss.after->row_us;
    } else {
      loss.downtime_us = kInfinity;
    }
    losses.push_back(std::move(loss));
  }
  return losses;
}

std::string DescribeLosses(const std::vector<WorkerMetrics>& workers, int layer_count,
                           const std::vector<Loss>& losses) {
  size_t name_width = 0;
  for (const Loss& loss : losses) {
    name_width = std::max(name_width, ShownName(workers, loss.worker).size());
  }
  std::string text;
  for (const Loss& loss : losses) {
    text += "  " + Padded(ShownName(workers, loss.worker), name_width) + "  ";
    if (!loss.repair && !loss.after) {
      text += "everything stops: " + FormatBytes(static_cast<double>(loss.missing_memory_bytes)) +
              " of memory would be missing\n";
      continue;
    }
    text += "answers stand still for " + FormatMicroseconds(loss.downtime_us) + ": ";
    text += NamesOf(loss.repair ? loss.repair->stages : loss.after->stages, workers, layer_count);
    if (loss.after) {
      text += "; at best " + FormatMicroseconds(loss.after->exec_us) + " per token afterwards";
    }
    text += "\n";
  }
  return text;
}

}  // namespace weft::planner
