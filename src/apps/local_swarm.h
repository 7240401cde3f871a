// LocalSwarm: a whole swarm in this process without a server: the real core and N native workers,
// cut where asked. For `weft generate`, `weft eval` and tests.
#pragma once

#include <memory>
#include <vector>

#include "apps/local_worker.h"
#include "package/package.h"
#include "server/swarm_host.h"
#include "swarm/options.h"

namespace weft::apps {

struct LocalSwarmOptions {
  uint32_t worker_count = 1;  // stages; at most the number of layers
  uint32_t threads_per_worker = 1;
  uint32_t context_length = swarm::kDefaultContextLength;
  bool reference_kernels = false;
};

struct LocalAnswer {
  std::vector<int32_t> output_ids;
  std::vector<float> margins;        // of each greedy step
  std::vector<float> prompt_logits;  // [prompt rows, vocabulary] when asked for
  Duration time_to_first_token;
  Duration decode_time;  // from the first to the last token
};

class LocalSwarm {
 public:
  LocalSwarm(const package::Package& package, const LocalSwarmOptions& options);
  ~LocalSwarm();

  // Runs one request to its end. Errors: what the core says; kTimeout when no plan comes up within
  // two minutes.
  Result<LocalAnswer> Run(swarm::Request request);
  const server::HostCounters& counters() const { return host_.counters(); }
  swarm::Snapshot snapshot() const { return host_.snapshot(); }

 private:
  net::EventLoop loop_;
  TaskQueue pool_;
  server::SwarmHost host_;
  std::vector<std::unique_ptr<LocalWorker>> workers_;
};

// Stages of as equal weight as contiguous layers allow, one for each of the first `stage_count`
// workers; no plan while fewer workers are there.
planner::PlanOutcome PlanEvenStages(const swarm::StartPlanning& job, uint32_t stage_count);

}  // namespace weft::apps
