#include "apps/local_swarm.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "apps/model_info.h"
#include "base/log.h"
#include "planner/cost_model.h"
#include "planner/planner.h"

namespace weft::apps {
namespace {

constexpr Duration kPatience = Seconds(120);
// Workers of one process share its memory: none of them needs an offer of its own.
constexpr uint64_t kNoMemoryLimit = 1ull << 46;

swarm::CoreOptions CoreOptionsFor(const package::Package& package,
                                  const LocalSwarmOptions& options) {
  swarm::CoreOptions core;
  core.model = ModelInfoOf(package);
  core.context_length = options.context_length;
  core.session_count = 1;
  // Nobody else would take over: a slow step is slow, not lost.
  core.timeouts.step_deadline_min = Seconds(600);
  core.timeouts.step_deadline_first = Seconds(600);
  core.timeouts.silence_limit = Seconds(600);
  core.timeouts.silence_limit_busy = Seconds(600);
  core.timeouts.join_debounce = Milliseconds(1);
  core.timeouts.replan_interval = Seconds(3600);
  return core;
}

// Ends of `stage_count` contiguous stages whose heaviest is as light as possible. REQUIRES: there
// are as many places to cut at.
std::vector<int> EvenEnds(const std::vector<planner::LayerCost>& layers, int stage_count) {
  const std::vector<int> cuts = planner::CutsOf(layers);
  const int n = static_cast<int>(cuts.size()) - 1;
  const double infinity = std::numeric_limits<double>::infinity();
  // best[s][i]: the heaviest of s stages over the first i layers.
  std::vector<std::vector<double>> best(static_cast<size_t>(stage_count) + 1,
                                        std::vector<double>(static_cast<size_t>(n) + 1, infinity));
  std::vector<std::vector<int>> cut(static_cast<size_t>(stage_count) + 1,
                                    std::vector<int>(static_cast<size_t>(n) + 1, 0));
  best[0][0] = 0;
  for (size_t s = 1; s < best.size(); ++s) {
    for (size_t end = s; end <= static_cast<size_t>(n); ++end) {
      double stage = 0;
      for (size_t first = end; first-- > s - 1;) {
        for (int layer = cuts[first]; layer < cuts[first + 1]; ++layer)
          stage += static_cast<double>(layers[static_cast<size_t>(layer)].weight_bytes) + 1;
        const double heaviest = std::max(stage, best[s - 1][first]);
        if (heaviest < best[s][end]) {
          best[s][end] = heaviest;
          cut[s][end] = static_cast<int>(first);
        }
      }
    }
  }
  std::vector<int> ends(static_cast<size_t>(stage_count));
  int end = n;
  for (int s = stage_count; s > 0; --s) {
    ends[static_cast<size_t>(s) - 1] = cuts[static_cast<size_t>(end)];
    end = cut[static_cast<size_t>(s)][static_cast<size_t>(end)];
  }
  return ends;
}

}  // namespace

planner::PlanOutcome PlanEvenStages(const swarm::StartPlanning& job, uint32_t stage_count) {
  planner::PlanOutcome outcome;
  if (job.repair) return outcome;
  const auto count = std::min<size_t>(stage_count, planner::CutsOf(job.layers).size() - 1);
  if (job.workers.size() < count) {
    outcome.problem =
        "Waiting for " + std::to_string(count - job.workers.size()) + " more workers.";
    return outcome;
  }
  std::vector<planner::StageAssignment> stages;
  int first = 0;
  for (const int end : EvenEnds(job.layers, static_cast<int>(count))) {
    planner::StageAssignment stage;
    stage.worker = static_cast<int>(stages.size());
    stage.first_layer = first;
    stage.end_layer = end;
    stages.push_back(stage);
    first = end;
  }
  outcome.plan = planner::EvaluatePlan(job.layers, job.workers, job.context, stages);
  if (!outcome.plan) outcome.problem = "The stages do not fit the workers.";
  return outcome;
}

LocalSwarm::LocalSwarm(const package::Package& package, const LocalSwarmOptions& options)
    : pool_(1), host_(loop_, pool_, CoreOptionsFor(package, options)) {
  const auto stage_count = static_cast<uint32_t>(
      std::min<size_t>(std::max(options.worker_count, 1u), package.manifest.layers.size()));
  host_.SetPlanner(
      [stage_count](const swarm::StartPlanning& job) { return PlanEvenStages(job, stage_count); });
  for (uint32_t i = 0; i < stage_count; ++i) {
    worker::NativeWorkerOptions worker;
    worker.name = "worker " + std::to_string(i + 1);
    worker.worker_id = "local-" + std::to_string(i + 1);
    worker.memory_bytes = kNoMemoryLimit;
    worker.thread_count = options.threads_per_worker;
    worker.reference_kernels = options.reference_kernels;
    workers_.push_back(std::make_unique<LocalWorker>(loop_, host_, worker, package));
  }
}

LocalSwarm::~LocalSwarm() = default;

Result<LocalAnswer> LocalSwarm::Run(swarm::Request request) {
  LocalAnswer answer;
  std::optional<Error> error;
  const Instant begin = MonotonicNow();
  Instant first_token;
  server::RequestCallbacks callbacks;
  callbacks.on_token = [&](const swarm::EmitToken& token) {
    if (answer.output_ids.empty()) first_token = MonotonicNow();
    answer.output_ids.push_back(token.token_id);
    answer.margins.push_back(token.margin);
  };
  callbacks.on_logits = [&](const swarm::EmitLogits& emitted) {
    const ByteSpan bytes = emitted.logits.bytes();
    const size_t offset = answer.prompt_logits.size();
    answer.prompt_logits.resize(offset + bytes.size() / sizeof(float));
    std::memcpy(answer.prompt_logits.data() + offset, bytes.data(), bytes.size());
  };
  callbacks.on_finish = [&](const swarm::FinishRequest& finish) {
    error = finish.error;
    loop_.Stop();
  };
  net::EventLoop::Timer patience(loop_);
  patience.FireAfter(kPatience, [&] {
    if (host_.snapshot().state == swarm::SwarmState::kUp) return;
    error = Error(ErrorCode::kTimeout, "No plan came up: " + host_.snapshot().message);
    loop_.Stop();
  });
  host_.Submit(std::move(request), std::move(callbacks));
  loop_.Run();
  if (error) return *std::move(error);
  answer.time_to_first_token = first_token - begin;
  answer.decode_time = MonotonicNow() - first_token;
  return answer;
}

}  // namespace weft::apps
