// `weft plan PACKAGE... --workers FILE`: what the planner would do with these devices, and why,
// before anyone downloads; and what it would do with one device more or less.
#include <boost/json/serialize.hpp>
#include <iostream>
#include <map>

#include "apps/commands.h"
#include "apps/model_info.h"
#include "apps/plan_devices.h"
#include "apps/plan_report.h"
#include "package/package.h"
#include "planner/words.h"
#include "swarm/experts/exchange_costs.h"
#include "swarm/options.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

using planner::Metric;
using planner::Objective;
using planner::PlanChoice;

const std::map<std::string, PlanChoice> kChoices = {{"weft", PlanChoice::kBest},
                                                    {"equal", PlanChoice::kEqual},
                                                    {"memory", PlanChoice::kMemory},
                                                    {"permutation", PlanChoice::kPermutation}};
const std::map<std::string, Metric> kMetrics = {{"speed", Metric::kSpeed},
                                                {"overhead", Metric::kOverhead},
                                                {"latency", Metric::kLatency},
                                                {"bandwidth", Metric::kBandwidth}};
const std::map<std::string, Objective> kObjectives = {{"latency", Objective::kLatency},
                                                      {"throughput", Objective::kThroughput}};

struct PlanOptions {
  std::vector<std::string> packages;
  std::string workers;
  std::vector<std::string> added, removed;
  std::string strategy = "weft", objective = "latency";
  std::vector<std::string> without;
  int equal_parts = 0;
  std::string kind = "auto";
  uint32_t context_length = swarm::kDefaultContextLength;
  uint32_t sessions = swarm::kDefaultSessions;
  uint32_t marks = swarm::kDefaultMarks;
  bool as_json = false;
};

// "with laptop=8GB, without tab"
std::string ChangeOf(const PlanOptions& options) {
  std::string text;
  const auto append = [&](const char* word, const std::vector<std::string>& devices) {
    for (const std::string& device : devices) {
      text += (text.empty() ? "" : ", ") + std::string(word) + " " + device;
    }
  };
  append("with", options.added);
  append("without", options.removed);
  return text;
}

Status ApplyChange(const PlanOptions& options, size_t layer_count,
                   std::vector<swarm::DeviceNumbers>& devices) {
  for (const std::string& name : options.removed) TRY(RemoveDevice(devices, name));
  for (const std::string& text : options.added) {
    ASSIGN_OR_RETURN(swarm::DeviceNumbers device, ParseDevice(text, layer_count));
    devices.push_back(std::move(device));
  }
  return OkStatus();
}

PlanSettings SettingsOf(const PlanOptions& options) {
  PlanSettings settings;
  settings.choice = kChoices.at(options.strategy);
  settings.equal_parts = options.equal_parts;
  for (const std::string& name : options.without) settings.without.push_back(kMetrics.at(name));
  settings.objective = kObjectives.at(options.objective);
  settings.kind = kPlanKinds.at(options.kind);
  return settings;
}

// One model: its plan for the devices as they are and, where something changes, as they would be.
struct ModelCases {
  std::string package;
  PlanCase now;
  std::optional<PlanCase> changed;
};

Result<ModelCases> SolveModel(const PlanOptions& options, const std::string& path) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(path));
  swarm::CoreOptions core =
      swarm::OptionsFor(ModelInfoOf(package), options.context_length, options.sessions);
  core.marks = options.marks;
  const size_t layer_count = core.model.layers.size();
  ASSIGN_OR_RETURN(std::vector<swarm::DeviceNumbers> devices,
                   ReadDevices(options.workers, layer_count));
  const PlanSettings settings = SettingsOf(options);
  if (settings.kind == swarm::PlanKind::kTensor)
    if (std::string problem = swarm::PlanProblem(core.model, settings.kind); !problem.empty())
      return Error(ErrorCode::kInvalidArgument, std::move(problem));
  ModelCases cases{path, SolvePlanCase(core, devices, settings), std::nullopt};
  if (!options.added.empty() || !options.removed.empty()) {
    TRY(ApplyChange(options, layer_count, devices));
    cases.changed = SolvePlanCase(core, devices, settings);
  }
  return cases;
}

std::string TextOf(const PlanOptions& options, const ModelCases& cases) {
  const bool is_only = options.packages.size() == 1;
  std::string text;
  if (!is_only || cases.changed) {
    const std::string change = ChangeOf(options);
    const size_t width = std::max<size_t>(change.size(), 3) + 1;
    text += cases.package + "\n  " + planner::Padded("now:", width) + "  " + SummaryOf(cases.now) +
            "\n";
    if (cases.changed) {
      text += "  " + planner::Padded(change + ":", width) + "  " + SummaryOf(*cases.changed) + "\n";
    }
  }
  if (is_only) text += ReportOf(cases.changed ? *cases.changed : cases.now);
  return text;
}

json::object JsonOfModel(const ModelCases& cases) {
  json::object object = JsonOf(cases.now);
  object["package"] = cases.package;
  if (cases.changed) object["changed"] = JsonOf(*cases.changed);
  return object;
}

Status PrintPlan(const PlanOptions& options) {
  json::array models;
  for (const std::string& package : options.packages) {
    ASSIGN_OR_RETURN(const ModelCases cases, SolveModel(options, package));
    if (options.as_json) {
      models.push_back(JsonOfModel(cases));
    } else {
      std::cout << TextOf(options, cases);
    }
  }
  if (!options.as_json) return OkStatus();
  std::cout << json::serialize(models.size() == 1 ? models[0]
                                                  : json::value{{"models", std::move(models)}})
            << "\n";
  return OkStatus();
}

void AddSettings(CLI::App& command, PlanOptions& options) {
  command
      .add_option(
          "--strategy", options.strategy,
          "How layers are shared out: weft (the planner's choice), or to compare with equal "
          "(equal numbers of layers), memory (in proportion to the offers), permutation "
          "(the search over orders of dynamic-graph-partitioning 5.5)")
      ->check(CLI::IsMember(kChoices))
      ->capture_default_str();
  command
      .add_option("--plan", options.kind,
                  "Whole layers, or of a mixture of experts: these apart from the layers that they "
                  "are of; of a package of `weft groups`: parts of every layer (tensor); auto is "
                  "whichever is predicted to be faster")
      ->check(CLI::IsMember(kPlanKinds))
      ->capture_default_str();
  command.add_option("--parts", options.equal_parts, "Of --strategy equal: into so many parts")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--without", options.without,
                  "Plan as if nobody had measured speed, overhead, latency or bandwidth (several: "
                  "speed,overhead), and show what that plan really takes")
      ->delimiter(',')
      ->check(CLI::IsMember(kMetrics));
  command
      .add_option("--objective", options.objective,
                  "latency: the time of a token; throughput: the slowest stage, for many "
                  "conversations at once")
      ->check(CLI::IsMember(kObjectives))
      ->capture_default_str();
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show which device would run which layers, the predicted time per token, what the loss of "
      "each device would cost, and why; with --add and --remove, what that would change.");
  command
      ->add_option("package", options->packages,
                   "Folders that 'weft convert' wrote; of several, a line each")
      ->required();
  command
      ->add_option(
          "--workers", options->workers,
          "JSON file: {\"workers\": [{\"name\", \"memory\", \"kind\": \"native\" or \"web\", "
          "\"needs_onnx\", \"weight_factor\", \"read_gb_per_s\", \"overhead_us\", \"latency_ms\", "
          "\"download_mb_per_s\", \"upload_mb_per_s\", \"lifetime_minutes\", "
          "\"cached_layers\"}]}; what a device leaves out is assumed as the server assumes it of a "
          "device that it has not measured")
      ->required();
  command
      ->add_option("--add", options->added,
                   "What if this device joined: laptop=8GB, or with fields as in the file "
                   "laptop=8GB,read_gb_per_s=20,kind=web (may be repeated)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--remove", options->removed,
                   "What if the device of this name left (may be repeated)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddSettings(*command, *options);
  command->add_option("--context", options->context_length, "Positions of a conversation")
      ->capture_default_str();
  command->add_option("--sessions", options->sessions, "Conversations held at once")
      ->capture_default_str();
  AddMarksOption(*command, options->marks);
  command->add_flag("--json", options->as_json, "Print JSON instead of text");
  command->callback([options, exit_code] { *exit_code = ReportStatus(PrintPlan(*options)); });
}

}  // namespace weft::apps
