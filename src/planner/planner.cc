#include "planner/planner.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "planner/cost_model.h"
#include "planner/coverage.h"
#include "planner/exact_search.h"
#include "planner/explain.h"
#include "planner/order_search.h"

namespace weft::planner {
namespace {

constexpr int kMaxLayers = 1000;
// n^2 m up to which all workers are looked at: bounds the stage table at about 100 MB.
constexpr double kMaxProblem = 4e6;
// A set of workers that can hold all layers is looked at even where it is so much larger.
constexpr size_t kCoverFactor = 4;
// n^2 m up to which orders are annealed (5.5.3).
constexpr double kMaxAnnealedProblem = 5e4;
// 2^m m n^2 up to which the exact search runs: 14 workers with 64 layers, 16 with 32.
constexpr double kMaxExactWork = 1.2e9;

// A swarm that nobody uses now is used again: it moves while nobody waits rather than never.
constexpr double kLeastBusyShare = 0.05;
// What moving bytes costs others, be it traffic, disk or heat: a gigabyte has to win a second.
constexpr double kMovedBytesPerUs = 1000;

double ProblemSize(int layer_count, int worker_count) {
  return static_cast<double>(layer_count) * layer_count * worker_count;
}

bool IsExact(int layer_count, int worker_count, const SearchOptions& options) {
  return worker_count <= std::min(options.exact_worker_limit, 16) &&
         std::ldexp(ProblemSize(layer_count, worker_count), worker_count) <= kMaxExactWork;
}

struct SearchResult {
  std::optional<Assignment> assignment;  // worker = row of the table
  SearchStrategy strategy = SearchStrategy::kNone;
};

SearchResult Search(const StageTable& table, const SearchOptions& options) {
  if (table.worker_count == 0) return {};
  if (IsExact(table.layer_count, table.worker_count, options)) {
    return {FindExact(table), SearchStrategy::kExact};
  }
  if (ProblemSize(table.layer_count, table.worker_count) < kMaxAnnealedProblem) {
    return {FindAnnealed(table, options), SearchStrategy::kAnnealing};
  }
  return {FindRandom(table, options), SearchStrategy::kRandom};
}

Plan MakePlan(const CostModel& model, const std::vector<StageAssignment>& stages) {
  Plan plan;
  double init_sum = 0, init_max = 0;
  int previous = kNoWorker;
  for (const StageAssignment& range : stages) {
    const StageAssignment stage =
        model.Stage(previous, range.worker, range.first_layer, range.end_layer);
    plan.exec_us += stage.exec_us;
    plan.departure_us += stage.departure_us;
    plan.row_us += stage.row_us;
    plan.init_us = std::max(plan.init_us, stage.init_us);
    init_sum += stage.init_cost;
    init_max = std::max(init_max, stage.init_cost);
    previous = stage.worker;
    plan.stages.push_back(stage);
  }
  plan.total_cost =
      plan.exec_us + plan.departure_us + model.alpha() * init_max + (1 - model.alpha()) * init_sum;
  return plan;
}

Plan MakePlan(const CostModel& model, const std::vector<int>& row_workers,
              const Assignment& assignment) {
  std::vector<StageAssignment> stages;
  for (const StageChoice& choice : assignment.stages) {
    StageAssignment stage;
    stage.worker = row_workers[static_cast<size_t>(choice.worker)];
    stage.first_layer = choice.first;
    stage.end_layer = choice.end;
    stages.push_back(stage);
  }
  return MakePlan(model, stages);
}

// Waits and downtimes are spread over the tokens that there would be, so their price depends on the
// time per token. Where the caller names none, it is that of the fastest plan: one more search.
PlanContext WithTokenTime(const std::vector<LayerCost>& layers,
                          const std::vector<WorkerMetrics>& workers,
                          const std::vector<int>& candidates, const PlanContext& context) {
  if (context.rule != PlanRule::kPriced || context.token_us > 0) return context;
  const bool leaving = std::any_of(candidates.begin(), candidates.end(), [&](int worker) {
    return workers[static_cast<size_t>(worker)].departures_per_s > 0;
  });
  if (context.up && !leaving) return context;
  const CostModel model(layers, workers, context);
  const SearchResult fastest = Search(StageTable(model, candidates), context.search);
  PlanContext timed = context;
  if (fastest.assignment) {
    timed.token_us = MakePlan(model, candidates, *fastest.assignment).exec_us;
  }
  return timed;
}

// The most layers that `worker` can run in one stage, and its time per layer then.
struct Capability {
  int worker = 0;
  int layers = 0;
  double us_per_layer = kInfinity;
};

Capability Measure(const CostModel& model, int worker) {
  Capability best{worker, 0, kInfinity};
  // Shortening keeps a stage allowed, so a window that only grows or slides finds the longest one.
  int first = 0;
  for (int end = 1; end <= model.layer_count(); ++end) {
    if (!model.Allowed(worker, first, end)) {
      ++first;
      continue;
    }
    best.layers = end - first;
    best.us_per_layer = model.Stage(kNoWorker, worker, first, end).exec_us / best.layers;
  }
  return best;
}

// Which of `workers`, that come by rising time per layer, to search over: `limit` of them, the
// fastest, but so that together they can still hold all layers if all workers can. The only device
// with room for the head may be the slowest of all. Where no such set is known, every layer keeps
// its fastest holder. A set that holds all layers may be larger than the limit, by kCoverFactor.
std::vector<bool> KeepFastest(const CostModel& model, const std::vector<int>& workers,
                              size_t limit) {
  const Reachability reachability(model, workers);
  std::vector<int> wanted = FindCover(reachability);
  if (wanted.empty()) {
    for (int layer = 0; layer < model.layer_count(); ++layer) {
      int row = 0;
      while (row < reachability.worker_count() && reachability.Furthest(row, layer) == layer) ++row;
      if (row < reachability.worker_count()) wanted.push_back(row);
    }
  }
  std::vector<bool> kept(workers.size(), false);
  size_t count = 0;
  const auto keep = [&](size_t row, size_t most) {
    if (kept[row] || count >= most) return;
    kept[row] = true;
    ++count;
  };
  for (const int row : wanted) keep(static_cast<size_t>(row), kCoverFactor * limit);
  for (size_t row = 0; row < workers.size(); ++row) keep(row, limit);
  return kept;
}

// The workers to search over: all that can hold some layer, or the most capable of them where the
// problem would grow too big. Says why about the others.
std::vector<int> Candidates(const CostModel& model, const std::vector<WorkerMetrics>& workers,
                            std::vector<LeftOutWorker>& left_out) {
  std::vector<Capability> able;
  for (int worker = 0; worker < model.worker_count(); ++worker) {
    const WorkerMetrics& metrics = workers[static_cast<size_t>(worker)];
    const std::string problem = WorkerProblem(metrics);
    if (!problem.empty()) {
      left_out.push_back({worker, problem});
      continue;
    }
    const Capability capability = Measure(model, worker);
    if (capability.layers == 0) {
      left_out.push_back({worker, "the " + FormatBytes(static_cast<double>(metrics.memory_bytes)) +
                                      " that it offers cannot hold any layer"});
      continue;
    }
    able.push_back(capability);
  }
  const double limit = std::max(1.0, kMaxProblem / ProblemSize(model.layer_count(), 1));
  std::vector<bool> kept(able.size(), true);
  if (static_cast<double>(able.size()) > limit) {
    std::stable_sort(able.begin(), able.end(), [](const Capability& a, const Capability& b) {
      return a.us_per_layer < b.us_per_layer;
    });
    std::vector<int> by_speed;
    by_speed.reserve(able.size());
    for (const Capability& capability : able) by_speed.push_back(capability.worker);
    kept = KeepFastest(model, by_speed, static_cast<size_t>(limit));
  }
  std::vector<int> candidates;
  for (size_t i = 0; i < able.size(); ++i) {
    if (kept[i]) {
      candidates.push_back(able[i].worker);
    } else {
      left_out.push_back(
          {able[i].worker, "the planner looks at the " + std::to_string(static_cast<int>(limit)) +
                               " fastest workers and those that alone can hold a layer"});
    }
  }
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

std::string ProblemSentence(const PlanOutcome& outcome, size_t worker_count, size_t candidate_count,
                            int covered, int layer_count) {
  const std::string missing = FormatBytes(static_cast<double>(outcome.missing_memory_bytes));
  if (worker_count == 0)
    return "No worker is connected; the model needs " + missing + " of memory.";
  if (candidate_count == 0) {
    return "None of the workers can run a layer; the model needs " + missing +
           " of memory on another device.";
  }
  const std::string held = covered == 0 ? "not even the embedding"
                                        : FormatLayers(0, covered, layer_count) + " of " +
                                              std::to_string(std::max(layer_count - 2, 0)) +
                                              " between embedding and head";
  return "The model needs " + missing + " more memory: the workers can hold " + held + ".";
}

// Fills in what can be said and done without a full plan.
void ExplainShortfall(const StageTable& table, const std::vector<int>& candidates,
                      const std::vector<LayerCost>& layers,
                      const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                      PlanOutcome& outcome) {
  double weight_factor = candidates.empty() ? 1 : 0;
  for (const int worker : candidates) {
    weight_factor = std::max(weight_factor, workers[static_cast<size_t>(worker)].weight_factor);
  }
  const Shortfall shortfall = FindShortfall(table, layers, weight_factor);
  outcome.missing_memory_bytes = shortfall.gap_bytes;
  const int covered = shortfall.covered_layers;
  outcome.problem = ProblemSentence(outcome, workers.size(), candidates.size(), covered,
                                    static_cast<int>(layers.size()));
  if (covered == 0) return;
  const std::vector<LayerCost> prefix(layers.begin(), layers.begin() + covered);
  const CostModel model(prefix, workers, WithTokenTime(prefix, workers, candidates, context));
  const StageTable partial_table(model, candidates);
  const SearchResult result = Search(partial_table, context.search);
  outcome.strategy = result.strategy;
  if (result.assignment) outcome.partial = MakePlan(model, candidates, *result.assignment);
}

}  // namespace

PlanOutcome FindPlan(const std::vector<LayerCost>& layers,
                     const std::vector<WorkerMetrics>& workers, const PlanContext& context) {
  PlanOutcome outcome;
  outcome.problem = LayersProblem(layers);
  if (outcome.problem.empty() && layers.size() > kMaxLayers) {
    outcome.problem = "The model has " + std::to_string(layers.size()) +
                      " layers; the planner takes at most " + std::to_string(kMaxLayers) + ".";
  }
  if (outcome.problem.empty()) outcome.problem = ContextProblem(context);
  if (!outcome.problem.empty()) return outcome;

  const auto by_worker = [](const LeftOutWorker& a, const LeftOutWorker& b) {
    return a.worker < b.worker;
  };
  const std::vector<int> candidates =
      Candidates(CostModel(layers, workers, context), workers, outcome.left_out);
  const CostModel model(layers, workers, WithTokenTime(layers, workers, candidates, context));
  const StageTable table(model, candidates);
  const SearchResult result = Search(table, context.search);
  if (!result.assignment) {
    std::sort(outcome.left_out.begin(), outcome.left_out.end(), by_worker);
    ExplainShortfall(table, candidates, layers, workers, context, outcome);
    return outcome;
  }
  outcome.strategy = result.strategy;
  outcome.plan = MakePlan(model, candidates, *result.assignment);
  outcome.notes = PlanNotes(model, workers, *outcome.plan, result.strategy, table.worker_count);
  std::vector<bool> used(candidates.size(), false);
  for (const StageChoice& stage : result.assignment->stages) {
    used[static_cast<size_t>(stage.worker)] = true;
  }
  for (size_t row = 0; row < candidates.size(); ++row) {
    if (used[row]) continue;
    outcome.left_out.push_back(
        {candidates[row], WhyLeftOut(table, result.assignment->stages, static_cast<int>(row))});
  }
  std::sort(outcome.left_out.begin(), outcome.left_out.end(), by_worker);
  return outcome;
}

std::optional<Plan> EvaluatePlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context,
                                 const std::vector<StageAssignment>& stages) {
  if (!LayersProblem(layers).empty() || !ContextProblem(context).empty() ||
      layers.size() > kMaxLayers || stages.empty()) {
    return std::nullopt;
  }
  const CostModel model(layers, workers, context);
  std::vector<bool> used(workers.size(), false);
  int covered = 0;
  for (const StageAssignment& stage : stages) {
    if (stage.worker < 0 || stage.worker >= model.worker_count()) return std::nullopt;
    if (stage.first_layer != covered || stage.end_layer <= covered ||
        stage.end_layer > model.layer_count()) {
      return std::nullopt;
    }
    if (used[static_cast<size_t>(stage.worker)] ||
        !model.Allowed(stage.worker, stage.first_layer, stage.end_layer)) {
      return std::nullopt;
    }
    used[static_cast<size_t>(stage.worker)] = true;
    covered = stage.end_layer;
  }
  const Plan plan = MakePlan(model, stages);
  if (context.rule != PlanRule::kPriced || context.token_us > 0) return plan;
  PlanContext timed = context;
  timed.token_us = plan.exec_us;
  return MakePlan(CostModel(layers, workers, timed), stages);
}

bool AcceptPlan(const Plan& candidate, double current_exec_us, const PlanContext& context) {
  return candidate.total_cost < context.constants.tau * current_exec_us;
}

bool AcceptMove(const Plan& candidate, double current_cost_us, const MovePrice& price,
                const PlanContext& context) {
  if (context.rule == PlanRule::kThesis) return AcceptPlan(candidate, current_cost_us, context);
  if (!(candidate.total_cost < context.constants.tau * current_cost_us)) return false;
  if (current_cost_us == kInfinity) return true;
  const double busy_share = std::max(context.busy_share, kLeastBusyShare);
  const double ready_us = price.bytes > 0 ? candidate.init_us : 0;
  const double stable_us = std::max(0.0, context.expected_stable_us - ready_us - price.pause_us);
  const double won_us = busy_share * stable_us * (1 - candidate.total_cost / current_cost_us);
  const double stopped_us = price.pause_us + static_cast<double>(price.rows) * candidate.row_us;
  return won_us > busy_share * stopped_us + static_cast<double>(price.bytes) / kMovedBytesPerUs;
}

StandbyOutcome FindStandby(const std::vector<LayerCost>& layers,
                           const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                           const Plan& current) {
  if (!LayersProblem(layers).empty() || !ContextProblem(context).empty() ||
      layers.size() > kMaxLayers) {
    return {};
  }
  PlanContext timed = context;
  if (context.rule == PlanRule::kPriced && context.token_us == 0) {
    const auto evaluated = EvaluatePlan(layers, workers, context, current.stages);
    timed.token_us = evaluated ? evaluated->exec_us : current.exec_us;
  }
  for (const StandbyMode mode : {StandbyMode::kStrict, StandbyMode::kRedundancy}) {
    const CostModel model(layers, workers, timed, {&current, mode == StandbyMode::kStrict});
    std::vector<LeftOutWorker> left_out;
    const std::vector<int> candidates = Candidates(model, workers, left_out);
    const SearchResult result = Search(StageTable(model, candidates), context.search);
    if (result.assignment) {
      return {MakePlan(model, candidates, *result.assignment), mode, result.strategy};
    }
  }
  return {};
}

}  // namespace weft::planner
