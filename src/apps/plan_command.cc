// `weft plan PACKAGE --workers FILE`: what the planner would do with these devices, and why, before
// anyone downloads.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <iostream>

#include "apps/commands.h"
#include "apps/model_info.h"
#include "base/file.h"
#include "package/package.h"
#include "swarm/costs.h"

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

// Reads one worker of the file; remembers the first thing that is wrong.
class WorkerReader {
 public:
  WorkerReader(const json::value& value, size_t index)
      : where_("workers[" + std::to_string(index) + "]") {
    if (value.is_object()) {
      object_ = &value.as_object();
    } else {
      Fail("is not an object");
    }
  }

  std::string Text(const char* name, const std::string& if_absent) {
    const json::value* value = Find(name);
    if (value == nullptr) return if_absent;
    if (!value->is_string()) Fail(std::string("has a '") + name + "' that is no text");
    return value->is_string() ? std::string(value->as_string()) : if_absent;
  }

  double Number(const char* name, double if_absent, double lowest) {
    const json::value* value = Find(name);
    if (value == nullptr) return if_absent;
    const double number = value->is_number() ? value->to_number<double>() : std::nan("");
    if (number >= lowest && std::isfinite(number)) return number;
    Fail(std::string("has '") + name + "' = " + json::serialize(*value) +
         "; expected a number from " + std::to_string(lowest));
    return if_absent;
  }

  uint64_t Bytes(const char* name) {
    const json::value* value = Find(name);
    std::optional<uint64_t> byte_count;
    if (value != nullptr && value->is_string()) byte_count = ParseByteCount(value->as_string());
    if (value != nullptr && value->is_int64() && value->as_int64() > 0) {
      byte_count = static_cast<uint64_t>(value->as_int64());
    }
    if (!byte_count) Fail(std::string("needs '") + name + "' such as \"4GiB\"");
    return byte_count.value_or(0);
  }

  std::vector<bool> Layers(const char* name, size_t layer_count) {
    std::vector<bool> layers(layer_count, false);
    const json::value* value = Find(name);
    if (value == nullptr) return layers;
    if (!value->is_array())
      return Fail(std::string("has '") + name + "' that is no array of layers"), layers;
    for (const json::value& item : value->as_array()) {
      const auto layer = item.is_int64() ? item.as_int64() : -1;
      if (layer < 0 || static_cast<size_t>(layer) >= layer_count) {
        Fail(std::string("names layer ") + json::serialize(item) + " of " +
             std::to_string(layer_count));
        return layers;
      }
      layers[static_cast<size_t>(layer)] = true;
    }
    return layers;
  }

  const std::string& problem() const { return problem_; }

 private:
  const json::value* Find(const char* name) const {
    return object_ == nullptr ? nullptr : object_->if_contains(name);
  }
  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = where_ + " " + what + ".";
  }

  std::string where_;
  const json::object* object_ = nullptr;
  std::string problem_;
};

Result<std::vector<planner::WorkerMetrics>> ReadWorkers(const std::string& path,
                                                        size_t layer_count) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 1 << 20));
  boost::system::error_code error;
  const json::value document = json::parse(text, error);
  const json::value* list =
      !error && document.is_object() ? document.as_object().if_contains("workers") : nullptr;
  if (list == nullptr || !list->is_array() || list->as_array().empty()) {
    return Error(
        ErrorCode::kInvalidData,
        "'" + path +
            "' must be JSON like {\"workers\": [{\"name\": \"laptop\", \"memory\": \"4GiB\", "
            "\"read_gb_per_s\": 20, \"latency_ms\": 2, \"download_mb_per_s\": 50}]}" +
            (error ? ": " + error.message() : "") + ".");
  }
  std::vector<planner::WorkerMetrics> workers;
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    WorkerReader reader(list->as_array()[i], i);
    planner::WorkerMetrics worker;
    worker.name = reader.Text("name", "worker " + std::to_string(i + 1));
    worker.memory_bytes = reader.Bytes("memory");
    worker.weight_factor = reader.Number("weight_factor", 1, 0.01);
    worker.compute_speed = reader.Number("read_gb_per_s", 10, 1e-6) * 1e3;  // bytes per us
    worker.session_overhead_us = reader.Number("overhead_us", 200, 0);
    worker.latency_us = reader.Number("latency_ms", 1, 0) * 1e3;
    worker.bandwidth_down = reader.Number("download_mb_per_s", 50, 1e-6);  // MB/s = bytes per us
    worker.bandwidth_up = reader.Number("upload_mb_per_s", worker.bandwidth_down, 1e-6);
    worker.cached_layers = reader.Layers("cached_layers", layer_count);
    if (!reader.problem().empty()) {
      return Error(ErrorCode::kInvalidData, "In '" + path + "', " + reader.problem());
    }
    workers.push_back(std::move(worker));
  }
  return workers;
}

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
  swarm::CoreOptions core;
  core.model = ModelInfoOf(package);
  core.context_length = options.context_length;
  core.session_count = options.sessions;
  const swarm::Costs costs(core);
  ASSIGN_OR_RETURN(const auto workers, ReadWorkers(options.workers, costs.layers().size()));
  const planner::PlanOutcome outcome = planner::FindPlan(costs.layers(), workers, {});
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
          "JSON file: {\"workers\": [{\"name\", \"memory\", \"read_gb_per_s\", \"overhead_us\", "
          "\"latency_ms\", \"download_mb_per_s\", \"upload_mb_per_s\", \"cached_layers\"}]}")
      ->required();
  command->add_option("--context", options->context_length, "Positions of a conversation")
      ->capture_default_str();
  command->add_option("--sessions", options->sessions, "Conversations held at once")
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print JSON instead of text");
  command->callback([options, exit_code] { *exit_code = ReportStatus(PrintPlan(*options)); });
}

}  // namespace weft::apps
