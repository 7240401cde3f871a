// `weft plan PACKAGE --workers FILE`: what the planner would do with these devices, and why, before
// anyone downloads.
#include <boost/json/serialize.hpp>
#include <iostream>

#include "apps/commands.h"
#include "apps/model_info.h"
#include "apps/plan_devices.h"
#include "package/package.h"
#include "planner/explain.h"
#include "planner/planner.h"
#include "swarm/planning.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

struct PlanOptions {
  std::string package;
  std::string workers;
  uint32_t context_length = 4096;
  uint32_t sessions = 4;
  bool as_json = false;
};

json::object PlanJson(const planner::Plan& plan,
                      const std::vector<planner::WorkerMetrics>& workers) {
  json::array stages;
  for (const planner::StageAssignment& stage : plan.stages) {
    stages.push_back({{"worker", workers[static_cast<size_t>(stage.worker)].name},
                      {"first_layer", stage.first_layer},
                      {"end_layer", stage.end_layer},
                      {"predicted_us", stage.exec_us},
                      {"memory_bytes", stage.memory_bytes},
                      {"download_bytes", stage.download_bytes}});
  }
  return {{"stages", std::move(stages)},
          {"predicted_us_per_token", plan.exec_us},
          {"ready_after_us", plan.init_us}};
}

Status PrintPlan(const PlanOptions& options) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(options.package));
  const swarm::CoreOptions core =
      swarm::OptionsFor(ModelInfoOf(package), options.context_length, options.sessions);
  const swarm::Costs costs(core);
  ASSIGN_OR_RETURN(const auto devices, ReadDevices(options.workers, costs.layers().size()));
  std::vector<planner::WorkerMetrics> workers;
  for (const swarm::DeviceNumbers& device : devices) {
    if (core.model.lowered || device.needs_onnx) workers.push_back(swarm::MetricsOf(device));
  }
  // As the server plans while nothing serves yet.
  const planner::PlanOutcome outcome = swarm::RunPlanning(swarm::PlanningJob(costs, workers, {}));
  if (!options.as_json) {
    std::cout << planner::ExplainPlan(costs.layers(), workers, outcome);
    return OkStatus();
  }
  json::array left_out;
  for (const planner::LeftOutWorker& worker : outcome.left_out) {
    left_out.push_back(
        {{"worker", workers[static_cast<size_t>(worker.worker)].name}, {"reason", worker.reason}});
  }
  std::cout << json::serialize(json::object{
                   {"plan", outcome.plan ? json::value(PlanJson(*outcome.plan, workers))
                                         : json::value(nullptr)},
                   {"problem", outcome.problem},
                   {"missing_memory_bytes", outcome.missing_memory_bytes},
                   {"strategy", planner::SearchStrategyName(outcome.strategy)},
                   {"left_out", std::move(left_out)}})
            << "\n";
  return OkStatus();
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Show which device would run which layers, the predicted time per token, and why.");
  command->add_option("package", options->package, "A folder that 'weft convert' wrote")
      ->required();
  command
      ->add_option(
          "--workers", options->workers,
          "JSON file: {\"workers\": [{\"name\", \"memory\", \"kind\": \"native\" or \"web\", "
          "\"needs_onnx\", \"weight_factor\", \"read_gb_per_s\", \"overhead_us\", \"latency_ms\", "
          "\"download_mb_per_s\", \"upload_mb_per_s\", \"cached_layers\"}]}; what a device leaves "
          "out is assumed as the server assumes it of a device that it has not measured")
      ->required();
  command->add_option("--context", options->context_length, "Positions of a conversation")
      ->capture_default_str();
  command->add_option("--sessions", options->sessions, "Conversations held at once")
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print JSON instead of text");
  command->callback([options, exit_code] { *exit_code = ReportStatus(PrintPlan(*options)); });
}

}  // namespace weft::apps
