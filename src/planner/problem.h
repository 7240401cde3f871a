// What the planner is given and what it gives back: layers, workers and limits in, a plan out. Only
// types; planner.h has the functions, docs/planner.md the reasons.
//
// Units are bytes, microseconds, and "ops" = bytes read per token at a nominal position. (Any unit
// does, as long as LayerCost::compute_cost and WorkerMetrics::compute_speed use the same one.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace weft::planner {

// A layer of the model: 0 is the embedding, 1..n are transformer layers, n+1 is the output head.
struct LayerCost {
  double compute_cost = 0;    // C_i, ops per token
  uint64_t weight_bytes = 0;  // W_i: downloaded once, resident while held
  uint64_t kv_bytes = 0;      // KV cache for the configured sessions and context
  uint64_t scratch_bytes =
      0;  // working buffers; layers of one stage run in turn and share the largest
  uint64_t input_bytes = 0;   // I_i, per token
  uint64_t output_bytes = 0;  // O_i, per token
  int exchanges = 0;          // times that a step waits for experts elsewhere (expert_cost.h)
  // The layer runs where the one before it runs: no plan cuts between them. REQUIRES: not layer 0.
  bool with_previous = false;
  // `tied_bytes` of weight_bytes are the same blobs as in the earlier layer `tied_to`, which is -1
  // for none. A stage that has both layers holds and downloads them once. REQUIRES: tied_to < own
  // index, tied_bytes <= both W.
  int tied_to = -1;
  uint64_t tied_bytes = 0;
};

// What is known of a worker. A caller that has not measured a value yet puts its own default there.
// A worker whose values make no sense (NaN, speed <= 0, ...) gets no layers. PlanOutcome::left_out
// then has a reason.
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
  double exchange_us = 0;   // T_dispatch of one exchange, where it is the hub
  // The sigma of this worker's engine; CostConstants::sigma_us is meant where it is not set.
  // Engines that load layer by layer need less.
  std::optional<double> session_init_us;
  std::vector<bool> cached_layers;  // D_w, by layer; layers beyond its end are not cached
  // The rate from disk to memory, bytes per us. It is 0 where it was not measured; loading then
  // takes session_init_us alone.
  double load_bytes_per_us = 0;
  // How many rows of a prompt are computed in the time of a single token, at least 1.
  double batch_gain = 1;
  // The worker's reliability is 1 / its expected lifetime from now on. It is 0 where that is not
  // known, or where it never leaves.
  double departures_per_s = 0;
};

// The constants of 5.2 have the paper's values.
struct CostConstants {
  double alpha = 0.8;              // weight of the slowest init against the sum of inits
  double gamma = 0.75;             // exponent of init while Up
  double gamma_block = 0.9;        // exponent of init while no model is loaded
  double sigma_us = 1e6;           // creating a session
  double delta_us = 500;           // per stage and token: serialisation and the server's own work
  double tau = 0.95;               // a new plan must be this much better
  Duration t_mid = Seconds(60);    // init counts half this long after the last redistribution
  Duration t_sharp = Seconds(12);  // steepness of that decay
};

// How layers are shared out.
enum class PlanChoice {
  kBest,  // what is cheapest
  // To compare with, each as good as its rule allows:
  kEqual,        // equal numbers of layers, on as many workers as can hold that
  kMemory,       // in proportion to what the workers offer, the largest first
  kPermutation,  // the thesis' search: all orders of few workers, annealing, random (5.5)
};

// The search's limits are counts, never wall time, so that one input has one result.
struct SearchOptions {
  PlanChoice choice = PlanChoice::kBest;
  int equal_parts = 0;  // of PlanChoice::kEqual; 0: as many as can be held
  // The search is exact for up to so many workers, by dynamic programming over worker subsets. Cost
  // doubles with each (figures in docs/planner.md). The limit is at most 16.
  int exact_worker_limit = 14;
  // Beyond, prices and a beam search (price_search.h) have these limits: stage costs looked at,
  // ways kept per layer.
  double price_work = 3e7;
  int beam_width = 64;
  // PlanChoice::kPermutation has the thesis' limits.
  int anneal_iterations = 1000;
  int anneal_patience = 200;  // stop a run after so many iterations without improvement
  int anneal_restarts = 1;
  double random_work = 5e7;  // stage costs looked at, where the thesis takes 100 ms
  uint64_t seed = 1;
};

// What a plan's loading and its workers' reliability cost, and what a better plan has to win.
enum class PlanRule {
  // A plan costs time: its time per token and the expected cost of its workers' departures per
  // token. While nothing serves, the wait until it is ready counts, too. AcceptMove weighs the move
  // against what it wins until the next change.
  kPriced,
  // The rule of dynamic-graph-partitioning 5.2 is kept to compare with. Its penalty for loading
  // fades with time since the last change, and AcceptMove is AcceptPlan.
  kThesis,
};

enum class Objective {
  kLatency,  // one stream: the sum of the stages
  // Many streams fill the pipeline: the slowest stage counts, then the sum. Loading does not count,
  // since such a plan is for a swarm that serves.
  kThroughput,
};

struct PlanContext {
  bool up = false;                // a fully loaded plan is serving
  Duration since_redistribution;  // only looked at while up, by the thesis' rule
  CostConstants constants;
  SearchOptions search;

  Objective objective = Objective::kLatency;
  // A latency plan may cost so much more, as a share, to even out its stages. One conversation
  // hardly feels it, and many at once wait for it (balance.h).
  double balance = 0;
  // The streams that decode at once. Several take turns on the stages, in as many parts as stages.
  // A round takes one of them max(total, parts * slowest stage), and a plan may cost one stream as
  // much as that anyway. Two stages of 1.8 and 2.9 ms, for example, take one stream 4.7 ms, two of
  // them 5.8. With 2.4 and 2.7 ms it is 5.1 for one, 5.4 for two.
  uint32_t conversations = 1;
  PlanRule rule = PlanRule::kPriced;
  // Only the priced rule looks at the rest.
  // Waits and downtimes are spread over this time per token, that of the plan that serves. It is 0
  // for that of the fastest plan there is (FindPlan), or of the plan itself (EvaluatePlan).
  double token_us = 0;
  // The measured time until the next expected change (a device joins or leaves), which ends what a
  // move wins.
  double expected_stable_us = 300e6;
  // A stream stands still for this time when a worker of the plan leaves. One part is a fixed time.
  // The other loads the weights of its layers elsewhere, at so many bytes per us. That rate is 0
  // where they are there already, as where devices stand by. Both are measured, or come from
  // RepairPlan.
  double repair_us = 2e6;
  double repair_bytes_per_us = 0;
};

// A stage has layers [first_layer, end_layer) on workers[worker].
struct StageAssignment {
  int worker = 0;
  int first_layer = 0;
  int end_layer = 0;
  double overhead_us = 0;  // SO_w + delta
  double compute_us = 0;   // sum of C / CS_w
  double transfer_us = 0;  // P_w + I / down + O / up, and its exchanges
  double exec_us = 0;      // C_exec: the sum of the three
  // The expected downtime per token follows from how often the worker leaves and what its layers
  // weigh. Tied ones count twice, so that it adds up by layers. The thesis' rule has 0.
  double departure_us = 0;
  double row_us = 0;  // time per row of a prompt, where rows come in batches
  // A token occupies the worker and its link for this time. Latency does not count, and transfers
  // count as those of a stage between others. More layers never make it less.
  double busy_us = 0;
  double init_us = 0;  // time to be ready: sigma + download + disk to memory
  // C_init is init_us after the power transform and decay (a penalty, not a time). By the priced
  // rule it is the share of the wait that a token bears.
  double init_cost = 0;
  uint64_t memory_bytes =
      0;  // needed on the worker; never above its offer in a plan that FindPlan returns
  uint64_t download_bytes = 0;  // weights not cached yet
};

struct Plan {
  std::vector<StageAssignment> stages;  // in layer order, contiguous from layer 0
  double exec_us = 0;                   // c_e: predicted time per token
  double init_us = 0;  // slowest stage's init_us: predicted time until ready, downloads in parallel
  double departure_us = 0;  // expected downtime per token, all stages
  double row_us = 0;        // time per row of a prompt through all stages
  double slowest_us = 0;  // largest busy_us: no more than 1 / slowest_us tokens leave the pipeline
  // C_total is slowest_us for throughput. For latency it is c_e + departures + alpha *
  // max(init_cost) + (1 - alpha) * sum(init_cost).
  double total_cost = 0;
};

enum class SearchStrategy {
  kNone,          // nothing to search
  kExact,         // optimal
  kPrices,        // price_search.h
  kEqual,         // PlanChoice::kEqual
  kMemory,        // PlanChoice::kMemory
  kPermutations,  // 5.5.2
  kAnnealing,     // 5.5.3
  kRandom,        // 5.5.4
};
// A layer, or layers that are kept together, that no worker could hold even alone.
struct OversizedLayer {
  int layer = 0;
  int end_layer = 0;
  int worker = 0;              // the one that lacks least for it
  uint64_t memory_bytes = 0;   // the layer needs on it...
  uint64_t lacking_bytes = 0;  // ...and that is more than it offers
};
struct LeftOutWorker {
  int worker = 0;
  std::string reason;  // one sentence without the worker's name
};

struct PlanOutcome {
  std::optional<Plan> plan;  // covers all layers
  // The deepest prefix of layers that the workers can hold, to download ahead, where there is no
  // plan.
  std::optional<Plan> partial;
  // The memory that one more device would have to offer so that all layers fit, at a weight factor
  // of 1. The other workers take as much of the rest as they can. It is 0 with a plan.
  uint64_t missing_memory_bytes = 0;
  // Layers are not divided over workers, so that these need a larger one. Empty with a plan.
  std::vector<OversizedLayer> oversized;
  SearchStrategy strategy = SearchStrategy::kNone;
  // No plan has a lower total_cost than the bound, where PlanChoice::kBest found a plan. `plan` is
  // above it by this share (0: nothing is better).
  double lower_bound = 0;
  double gap = 0;
  std::string problem;                  // why there is no plan: full sentences; empty with a plan
  std::vector<LeftOutWorker> left_out;  // workers without layers in `plan`, or unusable ones
  std::vector<std::string> notes;       // why the plan looks as it does, one sentence each
};

// ---- repair: a hole in a plan that serves ----

// What a worker holds of the model beside what WorkerMetrics says.
struct RepairCandidate {
  int worker = 0;           // index into the workers
  uint64_t free_bytes = 0;  // of its offer, beside what it runs and what it must keep
  // These are by layer, and layers beyond a vector's end are not there.
  // Layers in memory already, room for keys and values included, cost neither free bytes nor time.
  std::vector<bool> loaded_layers;
  // The worker also has all keys and values of these, as a hot standby does: nothing is replayed
  // for them.
  std::vector<bool> ready_rows;
};

struct RepairProblem {
  int first_layer = 0, end_layer = 0;  // the hole
  // A neighbour that goes on with its own stage may be a holder. It gets a stage of its own for the
  // hole, beside its other one. A worker is named at most once.
  std::vector<RepairCandidate> candidates;
  uint64_t replay_rows = 0;   // of all live sessions, from the history at the hole's first cut
  uint64_t chunk_rows = 128;  // rows that are replayed in one step
};

struct Repair {
  std::vector<StageAssignment> stages;  // a contiguous cover of the hole, a worker at most once
  double load_us = 0;      // slowest stage until ready: fetch, disk, memory; all at once
  double replay_us = 0;    // then the rows, stage after stage
  double downtime_us = 0;  // load_us + replay_us
  double exec_us = 0;      // time per token of these stages
  bool proven = false;     // no other choice stands still for less
};

// ---- moves: from a plan that serves to a better one ----

struct MovePrice {
  double pause_us = 0;  // live streams stand still; 0 where everything happens beside them
  uint64_t bytes = 0;   // fetched, read and loaded by all workers together
  uint64_t rows = 0;    // of live sessions that are computed once more by the new plan
};

}  // namespace weft::planner
