#include "planner/balance.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft::planner {
namespace {

// A boundary that moves by less than this gains nothing but a sum in another order.
constexpr double kBetter = 1 - 1e-9;

// The boundary behind stages[i] moved by one place, where both stages may be so.
std::optional<std::vector<StageChoice>> Moved(const CostModel& model,
                                              std::vector<StageChoice> stages, size_t i, int by) {
  StageChoice& before = stages[i];
  StageChoice& behind = stages[i + 1];
  before.end += by;
  behind.first += by;
  const auto is_allowed = [&model](const StageChoice& stage) {
    return stage.first < stage.end && model.Allowed(stage.worker, stage.first, stage.end);
  };
  if (!is_allowed(before) || !is_allowed(behind)) return std::nullopt;
  return stages;
}

}  // namespace

double MostEvenUs(const Plan& plan, const PlanContext& context) {
  const auto parts = std::min<double>(context.conversations, plan.stages.size());
  return std::max(plan.total_cost * (1 + context.balance), parts * plan.slowest_us);
}

Plan Balanced(const CostModel& model, std::vector<StageChoice> stages, double limit_us,
              const std::function<Plan(const std::vector<StageChoice>&)>& price) {
  Plan plan = price(stages);
  // Each round lessens the slowest stage, and there are finitely many plans.
  for (;;) {
    std::optional<std::vector<StageChoice>> best;
    Plan best_plan = plan;
    for (size_t i = 0; i + 1 < stages.size(); ++i) {
      for (const int by : {-1, 1}) {
        auto moved = Moved(model, stages, i, by);
        if (!moved) continue;
        Plan found = price(*moved);
        if (found.total_cost > limit_us || found.slowest_us >= best_plan.slowest_us * kBetter)
          continue;
        best_plan = std::move(found);
        best = std::move(moved);
      }
    }
    if (!best) return plan;
    stages = std::move(*best);
    plan = std::move(best_plan);
  }
}

}  // namespace weft::planner
