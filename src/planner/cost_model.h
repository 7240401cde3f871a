// The cost model of dynamic-graph-partitioning 5.2 as prefix sums (costs of one stage in O(1)). The
// searches read its table over all stages. Not a search.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/problem.h"

namespace weft::planner {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr int kNoWorker = -1;

// Gives the memory that layers [first_layer, end_layer) need on a worker with this weight factor:
// factor * weights (tied ones once) + KV + the largest scratch. Plans and checks on them share this
// formula. An empty range needs 0. REQUIRES: 0 <= first_layer <= end_layer <= layers.size().
uint64_t StageMemoryBytes(const std::vector<LayerCost>& layers, double weight_factor,
                          int first_layer, int end_layer);

// Gives a sentence about what is wrong with the layers or the constants, or "".
std::string LayersProblem(const std::vector<LayerCost>& layers);
std::string ConstantsProblem(const CostConstants& constants);
std::string ContextProblem(const PlanContext& context);
// Gives a sentence about why a worker cannot be planned with at all, or "".
std::string WorkerProblem(const WorkerMetrics& worker);

// Gives the places where plans may cut: the first layer of everything that is kept together (mostly
// a layer alone), and the number of layers. cuts[0] is 0.
std::vector<int> CutsOf(const std::vector<LayerCost>& layers);

// REQUIRES: LayersProblem and ContextProblem are empty. Keeps references to nothing.
//
// Layers that are kept together count as one here and in all that is made of the model. Stages are
// [first, end) by places in `cuts`. Layers 2 to 4 of 0 to 5 are kept together, for example: the
// cuts are 0 1 2 5 6, and [1, 3) is the layers 1 to 4. Searches so know nothing of such layers.
class CostModel {
 public:
  CostModel(const std::vector<LayerCost>& layers, const std::vector<WorkerMetrics>& workers,
            const PlanContext& context);

  int layer_count() const { return static_cast<int>(cuts_.size()) - 1; }
  const std::vector<int>& cuts() const { return cuts_; }
  // Gives the place of `layer` in cuts(), or nullopt in the middle of what is kept together.
  std::optional<int> PlaceOf(int layer) const;
  int worker_count() const { return static_cast<int>(workers_.size()); }
  double alpha() const { return alpha_; }
  bool Usable(int worker) const { return workers_[Index(worker)].usable; }
  double OfferBytes(int worker) const { return workers_[Index(worker)].memory_bytes; }
  Objective objective() const { return objective_; }
  // Gives the bytes that layers [0, end) need at weight factor 1, scratch aside.
  double BytesBefore(int end) const { return weight_prefix_[Layer(end)] + kv_prefix_[Layer(end)]; }
  double ComputeBefore(int end) const { return compute_prefix_[Layer(end)]; }

  // Tells whether [first, end) may run on `worker`. A shorter part of an allowed range is allowed,
  // too; the exact search rests on that.
  bool Allowed(int worker, int first, int end) const;

  // Gives the costs, by layers, of `worker` running [first, end) after `previous` (kNoWorker for
  // the first stage). Every frame passes the server in today's star, so `previous` changes nothing.
  // With direct links the transfer of the stage's input will depend on it. REQUIRES: the worker is
  // usable, first < end.
  StageAssignment Stage(int previous, int worker, int first, int end) const;
  // Gives the least exec_us + departure_us + rest[end] over the stages [first, end), first < end <=
  // furthest.
  double LeastExec(int worker, int first, int furthest, const std::vector<double>& rest) const;

 private:
  struct Worker {
    bool usable = false;
    double memory_bytes = 0;
    double weight_factor = 1;
    double overhead_us = 0, compute_speed = 1, bandwidth_down = 1, bandwidth_up = 1;
    double latency_us = 0, exchange_us = 0, session_init_us = 0, load_bytes_per_us = 0,
           batch_gain = 1;
    double departure_us = 0;           // expected downtime per token...
    double departure_us_per_byte = 0;  // ...and for each byte that others then have to load
    double link_us = 0;                // transfers of a stage between others
    std::vector<double> missing_weight_prefix;  // [layers + 1] bytes not cached
    // The tied pairs whose second download is saved: only within one stage, or always where the
    // first is cached.
    std::vector<bool> tied_free, tied_in_stage;
  };
  static size_t Index(int i) { return static_cast<size_t>(i); }
  size_t Layer(int place) const { return Index(cuts_[Index(place)]); }
  Worker MakeWorker(const WorkerMetrics& metrics, const PlanContext& context) const;
  double WeightBytes(int first, int end) const;
  double MemoryBytes(const Worker& worker, int first, int end) const;
  double DownloadBytes(const Worker& worker, int first, int end) const;
  double InitCost(double init_us) const;
  double DepartureUs(const Worker& worker, int first, int end) const {
    return worker.departure_us + worker.departure_us_per_byte *
                                     (weight_prefix_[Index(end)] - weight_prefix_[Index(first)]);
  }

  std::vector<int> cuts_;
  Objective objective_;
  double alpha_;
  double delta_us_;
  double init_exponent_, init_scale_;  // by the priced rule 1 and the tokens' share of a wait
  std::vector<LayerCost> layers_;
  std::vector<int> tied_layers_;                                    // layers with tied_to >= 0
  std::vector<double> compute_prefix_, weight_prefix_, kv_prefix_;  // [layers + 1]
  std::vector<double> exchange_prefix_;                             // [layers + 1]
  std::vector<double> scratch_max_;                                 // [first][end - 1]
  double most_input_bytes_ = 0, most_output_bytes_ = 0;             // of any layer
  std::vector<Worker> workers_;
};

// The stages of some workers as flat arrays, [worker][first][end] with extents (m, n + 1, n + 1).
struct StageTable {
  // Row k is the model's worker `workers[k]`.
  StageTable(const CostModel& model, const std::vector<int>& workers);

  size_t At(int worker, int first, int end) const {
    const size_t stride = static_cast<size_t>(layer_count) + 1;
    return (static_cast<size_t>(worker) * stride + static_cast<size_t>(first)) * stride +
           static_cast<size_t>(end);
  }
  // Gives the furthest end of an allowed stage that starts at `first`, or `first` itself where none
  // is allowed.
  int Reach(int worker, int first) const {
    return reach[static_cast<size_t>(worker) * (static_cast<size_t>(layer_count) + 1) +
                 static_cast<size_t>(first)];
  }

  // Gives the expected downtime per token: what of `sum` is neither exec nor init.
  double Departure(int worker, int first, int end) const {
    const size_t at = At(worker, first, end);
    const double init_us = objective == Objective::kLatency ? (1 - alpha) * init[at] : 0;
    return sum[at] - exec[at] - init_us;
  }

  int layer_count;
  std::vector<int> cuts;  // of the model
  int worker_count;
  Objective objective;
  double alpha;              // 0 for throughput
  std::vector<double> exec;  // C_exec; only entries first < end <= Reach are meaningful
  std::vector<double> init;  // C_init, or busy_us for throughput; never falls as `end` grows
  // This part of C_total adds up over stages: exec + departure + (1 - alpha) * init. Throughput
  // leaves out init.
  std::vector<double> sum;
  std::vector<int> reach;       // [worker][first]
  std::vector<double> compute;  // [layers + 1] compute cost of [0, end)
};

// One stage of a search result.
struct StageChoice {
  int worker;
  int first;
  int end;
};

// The result of a search over a StageTable.
struct Assignment {
  std::vector<StageChoice> stages;  // in layer order
  double total_cost = kInfinity;    // C_total
};

// Gives for every worker the last one before it with the same stages at the same costs, or
// kNoWorker. Exchanging such twins changes nothing, so searches use them in index order only.
std::vector<int> EarlierTwins(const StageTable& table);

// Gives the distinct C_init values of all stages, ascending.
std::vector<double> DistinctCaps(const StageTable& table);

// Gives the table with only those stages whose init is at most `cap`, and init 0: what is left to
// be minimised is the sum.
StageTable SumUnderCap(const StageTable& table, double cap);

// Gives the C_total of these stages, straight from the definition.
double TotalCost(const StageTable& table, const std::vector<StageChoice>& stages);

}  // namespace weft::planner
