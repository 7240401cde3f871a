// What the planner is given and what it gives back: layers, workers and limits in, a plan out. Only
// types; planner.h has the functions, docs/planner.md the reasons.
//
// Units: bytes, microseconds, and "ops" = bytes read per token at a nominal position (any unit
// does, as long as LayerCost::compute_cost and WorkerMetrics::compute_speed use the same one).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace weft::planner {

// One layer of the model: 0 = embedding, 1..n = transformer layers, n+1 = output head.
struct LayerCost {
  double compute_cost = 0;    // C_i, ops per token
  uint64_t weight_bytes = 0;  // W_i: downloaded once, resident while held
  uint64_t kv_bytes = 0;      // KV cache for the configured sessions and context
  uint64_t scratch_bytes =
      0;  // working buffers; layers of one stage run in turn and share the largest
  uint64_t input_bytes = 0;   // I_i, per token
  uint64_t output_bytes = 0;  // O_i, per token
  // Tied weights: `tied_bytes` of weight_bytes are the same blobs as in the earlier layer
  // `tied_to`, so a stage that has both holds and downloads them once. -1: none. REQUIRES: tied_to
  // < own index, tied_bytes <= both W.
  int tied_to = -1;
  uint64_t tied_bytes = 0;
};

// What is known of a worker. A caller that has not measured a value yet puts its own default there;
// a worker with values that make no sense (NaN, speed <= 0, ...) gets no layers and a reason in
// PlanOutcome::left_out.
struct WorkerMetrics {
  std::string name;           // only for explanations
  uint64_t memory_bytes = 0;  // M_w: what the worker offers
  double weight_factor =
      1;  // resident bytes per weight byte, reported by its engine (the paper: 1.5)
  double session_overhead_us = 0;  // SO_w; a negative estimate counts as 0
  double compute_speed = 1;        // CS_w, ops per us
  double bandwidth_down =
      1;  // B_w towards the worker, bytes per us (= MB/s): stage input and weights
  double bandwidth_up = 1;  // B_w from the worker, bytes per us: stage output
  double latency_us = 0;    // P_w, round trip, idle
  // sigma for this worker's engine; unset: CostConstants::sigma_us. Engines that load layer by
  // layer need less.
  std::optional<double> session_init_us;
  std::vector<bool> cached_layers;  // D_w, by layer; layers beyond its end are not cached
};

// Constants of 5.2, with the paper's values.
struct CostConstants {
  double alpha = 0.8;              // weight of the slowest init against the sum of inits
  double gamma = 0.75;             // exponent of init while Up
  double gamma_block = 0.9;        // exponent of init while no model is loaded
  double sigma_us = 1e6;           // creating a session
  double delta_us = 500;           // per stage and token: serialisation and the server's own work
  double tau = 0.95;               // a new plan must be this much better
  double lambda = 10;              // init of a standby on a worker that is already in the plan
  Duration t_mid = Seconds(60);    // init counts half this long after the last redistribution
  Duration t_sharp = Seconds(12);  // steepness of that decay
};

// Limits of the search. Counts, never wall time, so that one input has one result.
struct SearchOptions {
  // Up to so many workers the search is exact, by dynamic programming over worker subsets. Cost
  // doubles with each (figures in docs/planner.md). At most 16.
  int exact_worker_limit = 14;
  // Beyond: 5.5.3. The thesis' 1000 iterations with a patience of 200 end 5 to 7% above the
  // optimum for 14 workers; these end 0.5% above it.
  int anneal_iterations = 4000;
  int anneal_patience = 4000;  // stop a run after so many iterations without improvement
  int anneal_restarts = 4;
  // 5.5.4, for problems too big to anneal: stage costs looked at.
  double random_work = 5e7;
  uint64_t seed = 1;
};

struct PlanContext {
  bool up = false;                // a fully loaded plan is serving
  Duration since_redistribution;  // only looked at while up
  CostConstants constants;
  SearchOptions search;
};

// Layers [first_layer, end_layer) on workers[worker].
struct StageAssignment {
  int worker = 0;
  int first_layer = 0;
  int end_layer = 0;
  double overhead_us = 0;  // SO_w + delta
  double compute_us = 0;   // sum of C / CS_w
  double transfer_us = 0;  // P_w + I / down + O / up
  double exec_us = 0;      // C_exec: the sum of the three
  double init_us = 0;      // time to be ready: sigma + bytes to download / bandwidth
  double init_cost =
      0;  // C_init: init_us after the power transform, decay and lambda (a penalty, not a time)
  uint64_t memory_bytes =
      0;  // needed on the worker; never above its offer in a plan that FindPlan returns
  uint64_t download_bytes = 0;  // weights not cached yet
};

struct Plan {
  std::vector<StageAssignment> stages;  // in layer order, contiguous from layer 0
  double exec_us = 0;                   // c_e: predicted time per token
  double init_us = 0;  // slowest stage's init_us: predicted time until ready, downloads in parallel
  double total_cost = 0;  // C_total = c_e + alpha * max(init_cost) + (1 - alpha) * sum(init_cost)
};

enum class SearchStrategy {
  kNone,       // nothing to search
  kExact,      // optimal: subset DP
  kAnnealing,  // 5.5.3
  kRandom,     // 5.5.4
};
struct LeftOutWorker {
  int worker = 0;
  std::string reason;  // one sentence without the worker's name
};

struct PlanOutcome {
  std::optional<Plan> plan;  // covers all layers
  // Without a plan: the deepest prefix of layers that the workers can hold (for downloading ahead),
  // if any.
  std::optional<Plan> partial;
  // Without a plan: memory that one more device would have to offer (at SearchOptions-independent
  // weight factor 1) so that all layers fit, the other workers taking as much of the rest as they
  // can. 0 with a plan.
  uint64_t missing_memory_bytes = 0;
  SearchStrategy strategy = SearchStrategy::kNone;
  std::string problem;  // why there is no plan: one full sentence; empty with a plan
  std::vector<LeftOutWorker> left_out;  // workers without layers in `plan`, or unusable ones
  std::vector<std::string> notes;       // why the plan looks as it does, one sentence each
};

enum class StandbyMode {
  kNone,        // no standby exists
  kStrict,      // all its workers are outside the current plan
  kRedundancy,  // some current workers also hold other layers
};
struct StandbyOutcome {
  std::optional<Plan> plan;  // init_cost carries lambda; it covers all layers
  StandbyMode mode = StandbyMode::kNone;
  SearchStrategy strategy = SearchStrategy::kNone;
};

}  // namespace weft::planner
