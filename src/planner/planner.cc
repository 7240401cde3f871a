#include "planner/planner.h"

#include <algorithm>

#include "planner/balance.h"
#include "planner/candidates.h"
#include "planner/coverage.h"
#include "planner/explain.h"
#include "planner/search.h"

namespace weft::planner {
namespace {

constexpr int kMaxLayers = 1000;
// Below that the bound and the plan are sums of the same numbers in different orders.
constexpr double kProvenGap = 1e-11;

// A swarm that nobody uses now is used again: it moves while nobody waits rather than never.
// What moving bytes costs others, be it traffic, disk or heat: a gigabyte has to win a second.
constexpr double kMovedBytesPerUs = 1000;

// Stages of the model's workers.
Plan MakePlan(const CostModel& model, const std::vector<StageChoice>& stages) {
  Plan plan;
  double init_sum = 0, init_max = 0;
  int previous = kNoWorker;
  for (const StageChoice& range : stages) {
    const StageAssignment stage = model.Stage(previous, range.worker, range.first, range.end);
    plan.exec_us += stage.exec_us;
    plan.departure_us += stage.departure_us;
    plan.row_us += stage.row_us;
    plan.slowest_us = std::max(plan.slowest_us, stage.busy_us);
    plan.init_us = std::max(plan.init_us, stage.init_us);
    init_sum += stage.init_cost;
    init_max = std::max(init_max, stage.init_cost);
    previous = stage.worker;
    plan.stages.push_back(stage);
  }
  plan.total_cost =
      plan.exec_us + plan.departure_us + model.alpha() * init_max + (1 - model.alpha()) * init_sum;
  if (model.objective() == Objective::kThroughput) plan.total_cost = plan.slowest_us;
  return plan;
}

std::vector<StageChoice> StagesOf(const std::vector<int>& row_workers,
                                  const Assignment& assignment) {
  std::vector<StageChoice> stages = assignment.stages;
  for (StageChoice& stage : stages) stage.worker = row_workers[static_cast<size_t>(stage.worker)];
  return stages;
}

// A search over given workers: the model, its stages and what was found.
struct Searched {
  Searched(const std::vector<LayerCost>& layers, const std::vector<WorkerMetrics>& workers,
           const std::vector<int>& candidates, const PlanContext& context)
      : model(layers, workers, context),
        table(model, candidates),
        result(Search(model, candidates, table, context.search)) {
    if (result.assignment) plan = MakePlan(model, StagesOf(candidates, *result.assignment));
  }
  CostModel model;
  StageTable table;
  SearchResult result;
  std::optional<Plan> plan;
};

// Waits and downtimes are spread over the tokens that there would be, so their price depends on the
// time per token. Where the caller names none, it is that of the fastest plan: one more search.
PlanContext WithTokenTime(const std::vector<LayerCost>& layers,
                          const std::vector<WorkerMetrics>& workers,
                          const std::vector<int>& candidates, const PlanContext& context) {
  if (context.rule != PlanRule::kPriced || context.token_us > 0 ||
      context.objective == Objective::kThroughput) {
    return context;
  }
  const bool leaving = std::any_of(candidates.begin(), candidates.end(), [&](int worker) {
    return workers[static_cast<size_t>(worker)].departures_per_s > 0;
  });
  if (context.up && !leaving) return context;
  PlanContext timed = context;
  timed.search.choice = PlanChoice::kBest;
  // Where the search is not exact, the time need not be either.
  timed.search.price_work = context.search.price_work / 8;
  const Searched fastest(layers, workers, candidates, timed);
  timed.search = context.search;
  if (fastest.plan) timed.token_us = fastest.plan->exec_us;
  return timed;
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

std::vector<OversizedLayer> OversizedLayers(const std::vector<LayerCost>& layers,
                                            const std::vector<WorkerMetrics>& workers) {
  std::vector<OversizedLayer> oversized;
  const std::vector<int> cuts = CutsOf(layers);
  for (size_t place = 0; place + 1 < cuts.size(); ++place) {
    const int first = cuts[place], end = cuts[place + 1];
    OversizedLayer least{first, end, kNoWorker, 0, UINT64_MAX};
    for (size_t i = 0; i < workers.size() && least.lacking_bytes > 0; ++i) {
      if (!WorkerProblem(workers[i]).empty()) continue;
      const uint64_t needed = StageMemoryBytes(layers, workers[i].weight_factor, first, end);
      const uint64_t lacking = needed - std::min(needed, workers[i].memory_bytes);
      if (lacking < least.lacking_bytes) least = {first, end, static_cast<int>(i), needed, lacking};
    }
    if (least.worker != kNoWorker && least.lacking_bytes > 0) oversized.push_back(least);
  }
  return oversized;
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
  outcome.oversized = OversizedLayers(layers, workers);
  if (!outcome.oversized.empty()) {
    outcome.problem = OversizedSentence(layers, workers, outcome.oversized) + " " + outcome.problem;
  }
  if (covered == 0) return;
  const std::vector<LayerCost> prefix(layers.begin(), layers.begin() + covered);
  const Searched searched(prefix, workers, candidates,
                          WithTokenTime(prefix, workers, candidates, context));
  outcome.strategy = searched.result.strategy;
  outcome.partial = searched.plan;
}

// Whether a share of the time until the next change is more than the price of the move.
bool IsWorthMoving(const Plan& candidate, double won_share, const MovePrice& price,
                   const PlanContext& context) {
  const double ready_us = price.bytes > 0 ? candidate.init_us : 0;
  const double stable_us = std::max(0.0, context.expected_stable_us - ready_us - price.pause_us);
  const double stopped_us = price.pause_us + static_cast<double>(price.rows) * candidate.row_us;
  return stable_us * won_share > stopped_us + static_cast<double>(price.bytes) / kMovedBytesPerUs;
}

// The workers to look at, once with and once without what loading costs, where that matters.
CandidateSet CandidatesOf(const std::vector<LayerCost>& layers,
                          const std::vector<WorkerMetrics>& workers, PlanContext& context) {
  CandidateSet set = FindCandidates(CostModel(layers, workers, context), workers);
  const double token_us = context.token_us;
  context = WithTokenTime(layers, workers, set.workers, context);
  if (context.token_us == token_us || set.dropped.empty()) return set;
  return FindCandidates(CostModel(layers, workers, context), workers);
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
  PlanContext timed = context;
  CandidateSet set = CandidatesOf(layers, workers, timed);
  const std::vector<int>& candidates = set.workers;
  const Searched searched(layers, workers, candidates, timed);
  const SearchResult& result = searched.result;
  outcome.left_out = std::move(set.left_out);
  if (!searched.plan) {
    std::sort(outcome.left_out.begin(), outcome.left_out.end(), by_worker);
    if (context.search.choice != PlanChoice::kBest) {
      outcome.strategy = result.strategy;
      outcome.problem = "The layers do not fit as they are shared out " +
                        std::string(SearchStrategyName(result.strategy)) + ".";
      return outcome;
    }
    ExplainShortfall(searched.table, candidates, layers, workers, context, outcome);
    return outcome;
  }
  outcome.strategy = result.strategy;
  outcome.plan = searched.plan;
  if (context.balance > 0 && context.objective == Objective::kLatency)
    outcome.plan = Balanced(searched.model, StagesOf(candidates, *result.assignment),
                            MostEvenUs(*searched.plan, context),
                            [&](const auto& stages) { return MakePlan(searched.model, stages); });
  outcome.lower_bound = result.lower_bound;
  if (!set.dropped.empty() && context.search.choice == PlanChoice::kBest) {
    outcome.lower_bound =
        std::min(result.lower_bound, RelaxedBound(searched.model, set, result.prices));
  }
  if (outcome.lower_bound > 0) {
    outcome.gap = std::max(0.0, outcome.plan->total_cost / outcome.lower_bound - 1);
    if (outcome.gap < kProvenGap) outcome.gap = 0;
  }
  outcome.notes = PlanNotes(searched.model, workers, outcome, searched.table.worker_count);
  std::vector<bool> used(candidates.size(), false);
  for (const StageChoice& stage : result.assignment->stages) {
    used[static_cast<size_t>(stage.worker)] = true;
  }
  for (size_t row = 0; row < candidates.size(); ++row) {
    if (used[row]) continue;
    outcome.left_out.push_back(
        {candidates[row],
         WhyLeftOut(searched.table, result.assignment->stages, static_cast<int>(row))});
  }
  std::sort(outcome.left_out.begin(), outcome.left_out.end(), by_worker);
  return outcome;
}

namespace {

// nullopt: they do not cover the model in order, or one of them may not be.
std::optional<std::vector<StageChoice>> ChoicesOf(const CostModel& model,
                                                  const std::vector<StageAssignment>& stages) {
  std::vector<bool> used(static_cast<size_t>(model.worker_count()), false);
  std::vector<StageChoice> choices;
  int covered = 0;
  for (const StageAssignment& stage : stages) {
    if (stage.worker < 0 || stage.worker >= model.worker_count()) return std::nullopt;
    const std::optional<int> first = model.PlaceOf(stage.first_layer);
    const std::optional<int> end = model.PlaceOf(stage.end_layer);
    if (first != covered || !end || *end <= covered) return std::nullopt;
    if (used[static_cast<size_t>(stage.worker)] || !model.Allowed(stage.worker, *first, *end)) {
      return std::nullopt;
    }
    used[static_cast<size_t>(stage.worker)] = true;
    choices.push_back({stage.worker, *first, *end});
    covered = *end;
  }
  return choices;
}

bool CanBePriced(const std::vector<LayerCost>& layers, const PlanContext& context,
                 const std::vector<StageAssignment>& stages) {
  return LayersProblem(layers).empty() && ContextProblem(context).empty() &&
         layers.size() <= kMaxLayers && !stages.empty();
}

}  // namespace

std::optional<Plan> EvaluatePlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context,
                                 const std::vector<StageAssignment>& stages) {
  if (!CanBePriced(layers, context, stages)) return std::nullopt;
  const CostModel model(layers, workers, context);
  const auto choices = ChoicesOf(model, stages);
  if (!choices) return std::nullopt;
  const Plan plan = MakePlan(model, *choices);
  if (context.rule != PlanRule::kPriced || context.token_us > 0) return plan;
  PlanContext timed = context;
  timed.token_us = plan.exec_us;
  return MakePlan(CostModel(layers, workers, timed), *choices);
}

std::optional<Plan> EvenedOut(const std::vector<LayerCost>& layers,
                              const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                              const std::vector<StageAssignment>& stages) {
  const auto plan = EvaluatePlan(layers, workers, context, stages);
  if (!plan) return std::nullopt;
  PlanContext timed = context;
  if (timed.token_us == 0) timed.token_us = plan->exec_us;
  const CostModel model(layers, workers, timed);
  return Balanced(model, *ChoicesOf(model, stages), MostEvenUs(*plan, context),
                  [&](const auto& moved) { return MakePlan(model, moved); });
}

bool AcceptPlan(const Plan& candidate, double current_exec_us, const PlanContext& context) {
  return candidate.total_cost < context.constants.tau * current_exec_us;
}

bool AcceptMove(const Plan& candidate, double current_cost_us, const MovePrice& price,
                const PlanContext& context) {
  if (context.rule == PlanRule::kThesis) return AcceptPlan(candidate, current_cost_us, context);
  if (!(candidate.total_cost < context.constants.tau * current_cost_us)) return false;
  if (current_cost_us == kInfinity) return true;
  return IsWorthMoving(candidate, 1 - candidate.total_cost / current_cost_us, price, context);
}

bool AcceptEvenMove(const Plan& candidate, const Plan& current, const MovePrice& price,
                    const PlanContext& context) {
  return context.rule != PlanRule::kThesis &&
         candidate.total_cost <= MostEvenUs(current, context) &&
         candidate.slowest_us < context.constants.tau * current.slowest_us &&
         IsWorthMoving(candidate, 1 - candidate.slowest_us / current.slowest_us, price, context);
}

std::vector<WorkerMetrics> WithoutMetric(std::vector<WorkerMetrics> workers, Metric metric) {
  constexpr double kImmeasurable = 1e15;  // ops or bytes per us
  for (WorkerMetrics& worker : workers) {
    switch (metric) {
      case Metric::kSpeed:
        worker.compute_speed = kImmeasurable;
        break;
      case Metric::kOverhead:
        worker.session_overhead_us = 0;
        break;
      case Metric::kLatency:
        worker.latency_us = worker.exchange_us = 0;
        break;
      case Metric::kBandwidth:
        worker.bandwidth_down = worker.bandwidth_up = kImmeasurable;
        break;
    }
  }
  return workers;
}

}  // namespace weft::planner
