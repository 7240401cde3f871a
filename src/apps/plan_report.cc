#include "apps/plan_report.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <optional>

#include "planner/balance.h"
#include "planner/explain.h"
#include "swarm/experts/exchange_costs.h"
#include "swarm/plan/planning.h"
#include "swarm/workers/costs.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

// Of a conversation that goes on when a device is lost.
constexpr uint64_t kReplayRows = 1000;

// Finds a plan without some of the metrics; its times are then those with all of them.
void PlanBlindly(const planner::PlanContext& context, const PlanSettings& settings,
                 PlanCase& plan_case) {
  std::vector<planner::WorkerMetrics> seen = plan_case.workers;
  for (const planner::Metric metric : settings.without) {
    seen = planner::WithoutMetric(std::move(seen), metric);
  }
  planner::PlanOutcome blind = planner::FindPlan(plan_case.layers, seen, context);
  if (!blind.plan) return;
  plan_case.believed_us = blind.plan->exec_us;
  if (plan_case.outcome.plan) plan_case.best_us = plan_case.outcome.plan->exec_us;
  blind.plan =
      planner::EvaluatePlan(plan_case.layers, plan_case.workers, context, blind.plan->stages);
  blind.lower_bound = blind.gap = 0;
  blind.notes.clear();
  blind.left_out.clear();
  plan_case.outcome = std::move(blind);
}

std::string TokensPerSecond(double us) {
  const double rate = us > 0 ? 1e6 / us : 0;
  const double rounded = std::round(rate * (rate < 10 ? 100 : 10)) / (rate < 10 ? 100 : 10);
  std::string text = std::to_string(rounded);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " tokens/s";
}

bool Survives(const planner::Loss& loss) {
  return loss.repair || loss.after;
}

std::string Survival(const PlanCase& plan_case) {
  std::string fatal;
  size_t count = 0;
  for (const planner::Loss& loss : plan_case.losses) {
    if (Survives(loss)) continue;
    fatal += (count++ == 0 ? "" : ", ") + planner::ShownName(plan_case.workers, loss.worker);
  }
  if (count == 0) return "survives the loss of any device";
  if (count == plan_case.workers.size()) return "survives the loss of none";
  return "stops without " + fatal;
}

std::string Missing(const planner::PlanOutcome& outcome) {
  if (outcome.missing_memory_bytes == 0) return outcome.problem;
  return "does not run: " +
         planner::FormatBytes(static_cast<double>(outcome.missing_memory_bytes)) +
         " of memory are missing";
}

json::object JsonOf(const planner::Plan& plan, const std::vector<planner::WorkerMetrics>& workers) {
  json::array stages;
  for (const planner::StageAssignment& stage : plan.stages) {
    stages.push_back({{"worker", workers[static_cast<size_t>(stage.worker)].name},
                      {"first_layer", stage.first_layer},
                      {"end_layer", stage.end_layer},
                      {"predicted_us", stage.exec_us},
                      {"memory_bytes", stage.memory_bytes},
                      {"download_bytes", stage.download_bytes}});
  }
  return {{"stages", std::move(stages)},         {"predicted_us_per_token", plan.exec_us},
          {"slowest_stage_us", plan.slowest_us}, {"departures_us_per_token", plan.departure_us},
          {"cost_us", plan.total_cost},          {"ready_after_us", plan.init_us}};
}

json::array LossesJson(const PlanCase& plan_case) {
  json::array losses;
  for (const planner::Loss& loss : plan_case.losses) {
    json::object item{{"worker", plan_case.workers[static_cast<size_t>(loss.worker)].name},
                      {"survives", Survives(loss)},
                      {"missing_memory_bytes", loss.missing_memory_bytes}};
    if (Survives(loss)) item["downtime_us"] = loss.downtime_us;
    if (loss.after) item["predicted_us_per_token"] = loss.after->exec_us;
    losses.push_back(std::move(item));
  }
  return losses;
}

// Every device with programs lends experts what its layers leave. A hub that the server serves
// lends nothing.
std::vector<swarm::ExpertLender> LendersOf(const swarm::Costs& costs,
                                           const std::vector<swarm::DeviceNumbers>& devices,
                                           const swarm::DeviceNumbers* hub) {
  std::vector<swarm::ExpertLender> lenders;
  for (const swarm::DeviceNumbers& device : devices) {
    uint64_t taken = costs.layers()[0].scratch_bytes;
    if (&device == hub)
      taken += costs.MemoryBytes(device.weight_factor, {0, costs.layer_count(), LayerForm::kHub});
    const bool lends = !device.needs_onnx && !(&device == hub && device.rows_to_server);
    lenders.push_back(
        {device, lends ? device.memory_bytes - std::min(taken, device.memory_bytes) : 0});
  }
  return lenders;
}

// One plan after the other, each of devices that no plan before it has. Their stages name workers
// of `workers`.
std::vector<planner::Plan> SidePlansOf(const std::vector<planner::LayerCost>& layers,
                                       const std::vector<planner::WorkerMetrics>& workers,
                                       const planner::PlanContext& context,
                                       const planner::Plan& plan) {
  std::vector<planner::Plan> found;
  std::vector<bool> taken(workers.size(), false);
  const auto take = [&](const planner::Plan& each) {
    for (const planner::StageAssignment& stage : each.stages)
      taken[static_cast<size_t>(stage.worker)] = true;
  };
  take(plan);
  for (;;) {
    std::vector<planner::WorkerMetrics> rest;
    std::vector<int> places;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (taken[i]) continue;
      rest.push_back(workers[i]);
      places.push_back(static_cast<int>(i));
    }
    if (rest.empty()) return found;
    planner::PlanOutcome next = planner::FindPlan(layers, rest, context);
    if (!next.plan) return found;
    for (planner::StageAssignment& stage : next.plan->stages)
      stage.worker = places[static_cast<size_t>(stage.worker)];
    take(*next.plan);
    found.push_back(std::move(*next.plan));
  }
}

PlanCase SolveKind(const swarm::CoreOptions& core, const std::vector<swarm::DeviceNumbers>& devices,
                   const PlanSettings& settings, LayerForm form) {
  const swarm::Costs costs(core);
  PlanCase result;
  result.form = form;
  const bool is_hub = form == LayerForm::kHub;
  const bool in_groups = core.model.is_in_groups();
  if (is_hub) result.kind = in_groups ? "tensor" : "experts";
  result.layers = costs.layers(form);
  const std::optional<size_t> served =
      core.model.allows_served_hubs() ? swarm::ServedHubOf(costs, devices) : std::nullopt;
  for (size_t i = 0; i < devices.size(); ++i) {
    const swarm::DeviceNumbers& device = devices[i];
    if (device.needs_onnx ? !core.model.has_onnx : !core.model.lowered) continue;
    if ((is_hub || in_groups) && device.needs_onnx) continue;
    if (is_hub && !device.native && i != served) continue;
    result.workers.push_back(swarm::MetricsOf(device));
    if (is_hub)
      result.workers.back().exchange_us =
          swarm::ExchangeUs(core, device, LendersOf(costs, devices, &device), static_cast<int>(i));
  }
  planner::PlanContext context;
  context.objective = settings.objective;
  context.search.choice = settings.choice;
  context.search.equal_parts = settings.equal_parts;
  if (core.session_count > 1 && settings.choice == planner::PlanChoice::kBest)
    context.balance = planner::kServedBalance;
  result.outcome = swarm::RunPlanning(swarm::PlanningJob(costs, result.workers, context, form));
  if (is_hub && result.outcome.plan) {
    std::vector<swarm::ExpertLender> lenders = LendersOf(costs, devices, nullptr);
    for (const planner::StageAssignment& stage : result.outcome.plan->stages)
      for (swarm::ExpertLender& lender : lenders)
        if (lender.device.name == result.workers[static_cast<size_t>(stage.worker)].name)
          lender.room_bytes -= lender.device.rows_to_server
                                   ? lender.room_bytes
                                   : std::min(stage.memory_bytes, lender.room_bytes);
    if (!swarm::ExpertsFit(core.model, lenders)) {
      result.outcome.plan.reset();
      result.outcome.problem = std::string("The devices have too little memory for all ") +
                               (in_groups ? "neuron groups." : "experts.");
    }
  }
  if (!settings.without.empty()) PlanBlindly(context, settings, result);
  if (result.outcome.plan) {
    result.losses = planner::FindLosses(result.layers, result.workers, context,
                                        *result.outcome.plan, kReplayRows);
    const bool as_served =
        settings.choice == planner::PlanChoice::kBest && settings.without.empty();
    if (core.session_count > 1 && as_served && !is_hub)
      result.side_plans = SidePlansOf(result.layers, result.workers, context, *result.outcome.plan);
  }
  return result;
}

// "Beside it, for conversations of their own: tab and phone 4 tokens/s. Together 9.1 tokens/s."
std::string SidePlansText(const PlanCase& plan_case) {
  if (plan_case.side_plans.empty()) return "";
  std::string text = "Beside it, for conversations of their own: ";
  double per_us = 1 / plan_case.outcome.plan->exec_us;
  for (size_t i = 0; i < plan_case.side_plans.size(); ++i) {
    const planner::Plan& plan = plan_case.side_plans[i];
    if (i > 0) text += "; ";
    for (size_t j = 0; j < plan.stages.size(); ++j)
      text += (j > 0 ? " and " : "") + planner::ShownName(plan_case.workers, plan.stages[j].worker);
    text += " " + TokensPerSecond(plan.exec_us);
    per_us += 1 / plan.exec_us;
  }
  return text + ". Together " + TokensPerSecond(1 / per_us) + ".\n";
}

std::string TimeOf(const PlanCase& plan_case) {
  if (!plan_case.outcome.plan) return "no plan (" + Missing(plan_case.outcome) + ")";
  return planner::FormatMicroseconds(plan_case.outcome.plan->exec_us) + " per token";
}

}  // namespace

// "Memory of 4 conversations of 4096 positions, counted above: 1.2 GB of keys and values."
void TellSessions(const swarm::CoreOptions& core, PlanCase& plan_case) {
  for (const swarm::ModelLayer& layer : core.model.layers) {
    const swarm::SessionMemory memory = swarm::MemoryOfSessions(core, layer);
    plan_case.sessions.kv_bytes += memory.kv_bytes;
    plan_case.sessions.state_bytes += memory.state_bytes;
  }
  const auto bytes = [](uint64_t count) {
    return planner::FormatBytes(static_cast<double>(count));
  };
  plan_case.sessions_text =
      "Memory of " + std::to_string(core.session_count) +
      (core.session_count == 1 ? " conversation of " : " conversations of ") +
      std::to_string(core.context_length) +
      " positions, counted in the plan: " + bytes(plan_case.sessions.kv_bytes) +
      " of keys and values";
  if (core.model.is_recurrent())
    plan_case.sessions_text +=
        ", " + bytes(plan_case.sessions.state_bytes) + " of recurrent state (" +
        std::to_string(swarm::StatesOfSession(core)) + " states each: the last, the next and " +
        std::to_string(core.marks) + " at marks)";
  plan_case.sessions_text += ".\n";
}

PlanCase SolveBetter(const swarm::CoreOptions& core,
                     const std::vector<swarm::DeviceNumbers>& devices,
                     const PlanSettings& settings) {
  using Kind = swarm::PlanKind;
  const bool in_groups = core.model.is_in_groups();
  if (settings.kind != Kind::kAuto || !swarm::HasChoice(core.model)) {
    const Kind of_hubs = in_groups ? Kind::kTensor : Kind::kExperts;
    const bool is_hub = swarm::HasChoice(core.model) && settings.kind == of_hubs;
    return SolveKind(core, devices, settings, LayerFormOf(is_hub));
  }
  PlanCase layers = SolveKind(core, devices, settings, LayerForm::kWhole);
  PlanCase hubs = SolveKind(core, devices, settings, LayerForm::kHub);
  const bool layers_win =
      layers.outcome.plan && (!hubs.outcome.plan || !swarm::HubsPay(layers.outcome.plan->exec_us,
                                                                    hubs.outcome.plan->exec_us));
  const std::string apart = in_groups ? "parts of every layer" : "experts apart";
  std::string comparison = "Whole layers: " + TimeOf(layers) +
                           (in_groups ? ". Parts of every layer: " : ". Experts apart: ") +
                           TimeOf(hubs);
  if (hubs.outcome.plan) {
    double exchanges_us = 0;
    for (const planner::StageAssignment& stage : hubs.outcome.plan->stages)
      for (int layer = stage.first_layer; layer < stage.end_layer; ++layer)
        exchanges_us += hubs.layers[static_cast<size_t>(layer)].exchanges *
                        hubs.workers[static_cast<size_t>(stage.worker)].exchange_us;
    comparison += ", of which " + planner::FormatMicroseconds(exchanges_us) +
                  (in_groups ? " are for neuron groups" : " wait for experts");
  }
  PlanCase& better = layers_win || !hubs.outcome.plan ? layers : hubs;
  better.comparison = comparison +
                      ". Planned: " + (better.form == LayerForm::kHub ? apart : "whole layers") +
                      ".\n";
  return std::move(better);
}

PlanCase SolvePlanCase(const swarm::CoreOptions& core,
                       const std::vector<swarm::DeviceNumbers>& devices,
                       const PlanSettings& settings) {
  PlanCase plan_case = SolveBetter(core, devices, settings);
  TellSessions(core, plan_case);
  return plan_case;
}

std::string SummaryOf(const PlanCase& plan_case) {
  const planner::PlanOutcome& outcome = plan_case.outcome;
  if (!outcome.plan) return Missing(outcome);
  return TokensPerSecond(outcome.plan->exec_us) + " on " +
         std::to_string(outcome.plan->stages.size()) + " of " +
         std::to_string(plan_case.workers.size()) + " devices, ready after " +
         planner::FormatMicroseconds(outcome.plan->init_us) + "; " + Survival(plan_case);
}

std::string ReportOf(const PlanCase& plan_case) {
  std::string text = plan_case.comparison;
  text += planner::ExplainPlan(plan_case.layers, plan_case.workers, plan_case.outcome);
  if (plan_case.believed_us > 0 && plan_case.outcome.plan) {
    text += "Planned without all metrics: it was believed to take " +
            planner::FormatMicroseconds(plan_case.believed_us) + " per token";
    if (plan_case.best_us > 0) {
      text += "; the plan that knows them takes " + planner::FormatMicroseconds(plan_case.best_us);
    }
    text += ".\n";
  }
  text += SidePlansText(plan_case);
  text += plan_case.sessions_text;
  if (!plan_case.losses.empty()) {
    text += "If a device goes, with a conversation of " + std::to_string(kReplayRows) +
            " tokens and nobody standing by:\n" +
            planner::DescribeLosses(plan_case.workers, static_cast<int>(plan_case.layers.size()),
                                    plan_case.losses);
  }
  return text;
}

json::object JsonOf(const PlanCase& plan_case) {
  const planner::PlanOutcome& outcome = plan_case.outcome;
  json::array left_out;
  for (const planner::LeftOutWorker& worker : outcome.left_out) {
    left_out.push_back({{"worker", plan_case.workers[static_cast<size_t>(worker.worker)].name},
                        {"reason", worker.reason}});
  }
  json::object object{{"plan", outcome.plan ? json::value(JsonOf(*outcome.plan, plan_case.workers))
                                            : json::value(nullptr)},
                      {"kind", plan_case.kind},
                      {"problem", outcome.problem},
                      {"missing_memory_bytes", outcome.missing_memory_bytes},
                      {"strategy", planner::SearchStrategyName(outcome.strategy)},
                      {"left_out", std::move(left_out)},
                      {"losses", LossesJson(plan_case)},
                      {"kv_bytes", plan_case.sessions.kv_bytes},
                      {"state_bytes", plan_case.sessions.state_bytes}};
  if (!plan_case.side_plans.empty()) {
    json::array beside;
    for (const planner::Plan& plan : plan_case.side_plans)
      beside.push_back(JsonOf(plan, plan_case.workers));
    object["side_plans"] = std::move(beside);
  }
  if (outcome.lower_bound > 0) {
    object["lower_bound_us"] = outcome.lower_bound;
    object["gap"] = outcome.gap;
  }
  if (!plan_case.comparison.empty()) object["comparison"] = plan_case.comparison;
  if (plan_case.believed_us > 0) object["believed_us_per_token"] = plan_case.believed_us;
  return object;
}

}  // namespace weft::apps
