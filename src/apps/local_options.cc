#include "apps/local_options.h"

namespace weft::apps {

void AddLocalOptions(CLI::App& command, LocalOptions& options) {
  command.add_option("package", options.package, "A folder that 'weft convert' wrote")->required();
  command.add_option("--workers", options.workers, "Native workers to cut the model over")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command.add_option("--threads", options.threads, "Threads of each worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command.add_flag("--reference-kernels", options.reference_kernels,
                   "Use the scalar kernels that the others are judged by");
}

Status CheckWorkers(const package::Package& package, uint32_t workers) {
  if (!package.manifest.lowered) {
    return Error(ErrorCode::kUnsupported,
                 "The model '" + package.manifest.name +
                     "' has no programs for native workers: only browsers with onnxruntime-web can "
                     "compute it (`weft serve`, then open the join page).");
  }
  if (workers <= package.manifest.layers.size()) return OkStatus();
  return Error(ErrorCode::kInvalidArgument, std::to_string(workers) +
                                                " workers cannot share a model of " +
                                                std::to_string(package.manifest.layers.size()) +
                                                " layers: at most one a layer.");
}

LocalSwarmOptions SwarmOptions(const LocalOptions& options, size_t positions) {
  LocalSwarmOptions swarm;
  swarm.worker_count = options.workers;
  swarm.threads_per_worker = options.threads;
  swarm.context_length = static_cast<uint32_t>(positions);
  swarm.reference_kernels = options.reference_kernels;
  return swarm;
}

}  // namespace weft::apps
