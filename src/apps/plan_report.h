// What `weft plan` finds out about some devices and one model, and how it tells it.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "planner/losses.h"
#include "planner/planner.h"
#include "swarm/options.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/device.h"

namespace weft::apps {

struct PlanSettings {
  planner::PlanChoice choice = planner::PlanChoice::kBest;
  int equal_parts = 0;                   // of PlanChoice::kEqual
  std::vector<planner::Metric> without;  // metrics that the planner does not see
  planner::Objective objective = planner::Objective::kLatency;
  swarm::PlanKind kind = swarm::PlanKind::kLayers;
};

// A model, the devices that can run it, and the plan for them.
struct PlanCase {
  std::vector<planner::LayerCost> layers;
  std::vector<planner::WorkerMetrics> workers;
  // With metrics left out the plan was chosen without them; its times are the real ones.
  planner::PlanOutcome outcome;
  std::vector<planner::Loss> losses;
  // The plans of left-out devices that hold the model without the plan, best first. While several
  // conversations are there, each such plan answers its own.
  std::vector<planner::Plan> side_plans;
  // In hub form: experts or neuron groups are apart from their layers. The kind is as --plan calls
  // it, and the comparison says in words how both kinds of plans of a mixture compare.
  LayerForm form = LayerForm::kWhole;
  std::string kind = "layers";
  std::string comparison;
  swarm::SessionMemory sessions;  // of the whole model
  std::string sessions_text;      // the same as a sentence
  // With metrics left out: what the plan was believed to take, and what the best one takes.
  double believed_us = 0, best_us = 0;
};

// As the server plans while nothing serves yet.
PlanCase SolvePlanCase(const swarm::CoreOptions& core,
                       const std::vector<swarm::DeviceNumbers>& devices,
                       const PlanSettings& settings);

// One line: whether it runs, how fast, whose loss it survives; or what is missing.
std::string SummaryOf(const PlanCase& plan_case);
// Everything, with a drawing. Ends with a newline.
std::string ReportOf(const PlanCase& plan_case);
boost::json::object JsonOf(const PlanCase& plan_case);

}  // namespace weft::apps
