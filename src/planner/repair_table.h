// What every stage of a hole costs on every candidate: whether it fits, when it is ready, what it
// replays. Layers are counted from the hole's first, those that are kept together as one
// (cost_model.h). Not a search.
#pragma once

#include <optional>
#include <vector>

#include "planner/coverage.h"

namespace weft::planner {

struct RepairStage {
  double load_us = 0;    // fetch, disk and memory; 0 if all its layers are in memory
  double replay_us = 0;  // all rows through it
  double exec_us = 0;    // per token, with what the worker's departures cost
  bool ready = false;    // has all keys and values: replays only for a later stage
};

// REQUIRES: the hole lies within the layers and ends nowhere among some that are kept together; the
// candidates name workers.
class RepairTable {
 public:
  RepairTable(const std::vector<LayerCost>& layers, const std::vector<WorkerMetrics>& workers,
              const PlanContext& context, const RepairProblem& problem);

  int layer_count() const { return layer_count_; }          // of the hole
  int candidate_count() const { return candidate_count_; }  // row = index of the candidate
  const Reachability& reachability() const { return *reachability_; }
  // REQUIRES: first < end <= reachability().Furthest(row, first).
  const RepairStage& At(int row, int first, int end) const {
    return stages_[Index(row, first, end)];
  }
  // As the plan says it, by the model's layers.
  StageAssignment Assignment(int row, int first, int end) const;

 private:
  size_t Index(int row, int first, int end) const {
    const size_t stride = static_cast<size_t>(layer_count_) + 1;
    return (static_cast<size_t>(row) * stride + static_cast<size_t>(first)) * stride +
           static_cast<size_t>(end);
  }
  // Fills the row's stages that start at `first`. Returns the furthest end that fits.
  int FillFrom(int row, int first, const RepairCandidate& candidate, const WorkerMetrics& worker,
               const RepairProblem& problem);

  // The model's layer at a place in the hole.
  int LayerAt(int place) const {
    return model_.cuts()[static_cast<size_t>(first_place_) + static_cast<size_t>(place)];
  }

  int candidate_count_;
  double sigma_us_;
  std::vector<LayerCost> layers_;
  std::vector<int> worker_of_;  // [row]
  CostModel model_;             // its worker `row` has what the candidate has in memory cached
  int first_place_;             // of the hole, in the model's cuts
  int layer_count_;
  std::vector<RepairStage> stages_;
  std::vector<uint64_t> memory_bytes_;  // as stages_: free bytes that are used
  std::optional<Reachability> reachability_;
};

}  // namespace weft::planner
