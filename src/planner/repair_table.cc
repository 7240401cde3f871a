#include "planner/repair_table.h"

#include <algorithm>
#include <cmath>

namespace weft::planner {
namespace {

bool HasLayer(const std::vector<bool>& layers, int layer) {
  return static_cast<size_t>(layer) < layers.size() && layers[static_cast<size_t>(layer)];
}

// The candidates as workers of their own. What is in memory needs no fetching.
std::vector<WorkerMetrics> CandidateMetrics(const std::vector<WorkerMetrics>& workers,
                                            const RepairProblem& problem) {
  std::vector<WorkerMetrics> metrics;
  for (const RepairCandidate& candidate : problem.candidates) {
    WorkerMetrics worker = workers[static_cast<size_t>(candidate.worker)];
    std::vector<bool>& cached = worker.cached_layers;
    cached.resize(std::max(cached.size(), candidate.loaded_layers.size()), false);
    for (size_t i = 0; i < candidate.loaded_layers.size(); ++i) {
      if (candidate.loaded_layers[i]) cached[i] = true;
    }
    metrics.push_back(std::move(worker));
  }
  return metrics;
}

}  // namespace

RepairTable::RepairTable(const std::vector<LayerCost>& layers,
                         const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                         const RepairProblem& problem)
    : candidate_count_(static_cast<int>(problem.candidates.size())),
      sigma_us_(context.constants.sigma_us),
      layers_(layers),
      model_(layers, CandidateMetrics(workers, problem), context),
      first_place_(model_.PlaceOf(problem.first_layer).value()),
      layer_count_(model_.PlaceOf(problem.end_layer).value() - first_place_) {
  stages_.resize(Index(candidate_count_, 0, 0));
  memory_bytes_.resize(stages_.size());
  std::vector<int> furthest;
  for (int row = 0; row < candidate_count_; ++row) {
    const RepairCandidate& candidate = problem.candidates[static_cast<size_t>(row)];
    worker_of_.push_back(candidate.worker);
    const WorkerMetrics& worker = workers[static_cast<size_t>(candidate.worker)];
    for (int first = 0; first <= layer_count_; ++first) {
      furthest.push_back(model_.Usable(row) ? FillFrom(row, first, candidate, worker, problem)
                                            : first);
    }
  }
  reachability_.emplace(layer_count_, std::move(furthest));
}

int RepairTable::FillFrom(int row, int first, const RepairCandidate& candidate,
                          const WorkerMetrics& worker, const RepairProblem& problem) {
  const double rows = static_cast<double>(problem.replay_rows);
  const double steps =
      std::ceil(rows / static_cast<double>(std::max<uint64_t>(problem.chunk_rows, 1)));
  double weights = 0, kv = 0, scratch = 0;  // of layers that are not in memory
  bool ready = true, all_loaded = true;
  const int first_layer = LayerAt(first);
  for (int end = first + 1; end <= layer_count_; ++end) {
    for (int layer = LayerAt(end - 1); layer < LayerAt(end); ++layer) {
      const LayerCost& cost = layers_[static_cast<size_t>(layer)];
      ready = ready && HasLayer(candidate.ready_rows, layer);
      if (HasLayer(candidate.loaded_layers, layer)) continue;
      all_loaded = false;
      weights += static_cast<double>(cost.weight_bytes);
      const bool tied_is_there =
          cost.tied_to >= first_layer ||
          (cost.tied_to >= 0 && HasLayer(candidate.loaded_layers, cost.tied_to));
      if (tied_is_there) weights -= static_cast<double>(cost.tied_bytes);
      kv += static_cast<double>(cost.kv_bytes);
      scratch = std::max(scratch, static_cast<double>(cost.scratch_bytes));
    }
    const double memory = std::ceil(worker.weight_factor * weights) + kv + scratch;
    if (memory > static_cast<double>(candidate.free_bytes)) return end - 1;
    const StageAssignment costs =
        model_.Stage(kNoWorker, row, first_place_ + first, first_place_ + end);
    RepairStage& stage = stages_[Index(row, first, end)];
    if (!all_loaded) {
      stage.load_us = worker.session_init_us.value_or(sigma_us_) +
                      static_cast<double>(costs.download_bytes) / worker.bandwidth_down;
      if (worker.load_bytes_per_us > 0) stage.load_us += weights / worker.load_bytes_per_us;
    }
    stage.replay_us =
        rows > 0 ? steps * (costs.overhead_us + worker.latency_us) + rows * costs.row_us : 0;
    stage.exec_us = costs.exec_us + costs.departure_us;
    stage.ready = ready;
    memory_bytes_[Index(row, first, end)] = static_cast<uint64_t>(memory);
  }
  return layer_count_;
}

StageAssignment RepairTable::Assignment(int row, int first, int end) const {
  StageAssignment stage = model_.Stage(kNoWorker, row, first_place_ + first, first_place_ + end);
  stage.worker = worker_of_[static_cast<size_t>(row)];
  stage.init_us = At(row, first, end).load_us;
  stage.init_cost = 0;
  stage.memory_bytes = memory_bytes_[Index(row, first, end)];
  return stage;
}

}  // namespace weft::planner
