// Evens out the stages of a plan. One stream does not care which of two equal devices computes how
// many layers; many streams wait for the slowest stage. Two devices that take 0.2 ms a layer:
//
//   layers 0-9, 10-29    one stream 6.0 ms a token    many: a token every 4.0 ms
//   layers 0-14, 15-29   one stream 6.0 ms            many: a token every 3.0 ms
#pragma once

#include <functional>
#include <vector>

#include "planner/cost_model.h"

namespace weft::planner {

// PlanContext::balance of a server with several sessions: one conversation hardly feels it.
inline constexpr double kServedBalance = 0.02;

// What a stream may take where the plan is evened out (PlanContext::balance, conversations).
double MostEvenUs(const Plan& plan, const PlanContext& context);

// The same workers in the same order, with boundaries moved one place at a time. Each move is the
// one that leaves the slowest stage least busy, while the plan's total cost stays within
// `limit_us`. `price` makes a plan of stages that the model allows.
Plan Balanced(const CostModel& model, std::vector<StageChoice> stages, double limit_us,
              const std::function<Plan(const std::vector<StageChoice>&)>& price);

}  // namespace weft::planner
