// `weft onnx-split` and `weft sim`: tools for developers and the curious.
#include "apps/commands.h"
#include "apps/onnx_split.h"
#include "sim/cluster/run.h"
#include "sim/run.h"

namespace weft::apps {

void AddOnnxSplitCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<OnnxSplitOptions>();
  CLI::App* command =
      app.add_subcommand("onnx-split", "Cut an ONNX decoder at its layers and write the parts.");
  command->add_option("model", options->model, "A folder with one .onnx file, or the file")
      ->required();
  command->add_option("out", options->out, "Folder for the parts")->required();
  command->add_flag("--pairs", options->pairs, "Also the ranges between any two cuts");
  command->callback([options, exit_code] { *exit_code = ReportStatus(OnnxSplit(*options)); });
}

void AddSimCommand(CLI::App& app, int* exit_code) {
  struct SimOptions {
    uint64_t seed = 1;
    uint64_t count = 200;
    bool verbose = false;
    bool cluster = false;
    std::string faults = "all";
  };
  auto options = std::make_shared<SimOptions>();
  CLI::App* command = app.add_subcommand(
      "sim",
      "Run the orchestrator's core against simulated workers that join, crash, stall and lie.");
  command->add_option("--seed", options->seed, "First seed")->capture_default_str();
  command->add_option("--seeds", options->count, "How many seeds")->capture_default_str();
  command->add_flag("--verbose", options->verbose, "Print every event");
  CLI::Option* cluster = command->add_flag(
      "--cluster", options->cluster, "Run the leases of several servers against their database");
  command
      ->add_option("--faults", options->faults,
                   "With --cluster: all, reject, db, kill, loss or relay")
      ->check(CLI::IsMember({"all", "reject", "db", "kill", "loss", "relay"}))
      ->needs(cluster)
      ->capture_default_str();
  command->callback([options, exit_code] {
    if (options->cluster) {
      *exit_code =
          sim::RunClusterSimulation(options->seed, options->count,
                                    *sim::ClusterFaultsByName(options->faults), options->verbose);
      return;
    }
    *exit_code = sim::RunSimulation(options->seed, options->count, options->verbose);
  });
}

}  // namespace weft::apps
