// Where no plan is found: what people are told, what is downloaded meanwhile, and who is asked all
// the same.
#include <algorithm>

#include "swarm/plan/planning.h"

namespace weft::swarm {

// Whoever was only slow is better than nobody.
bool Planning::AskTheSlow(Instant now) {
  const bool any = members_.ResumeSlow();
  if (any) Want(now);
  return any;
}

// Of those that would compute, but cannot get layers.
void Planning::TellWhoCannotLoad() {
  for (const auto& [id, worker] : roster_)
    if (worker.ready && worker.loading->paused_until && !worker.record->problem.empty())
      problem_ += " " + worker.offer.name + " cannot load layers: " + worker.record->problem;
}

void Planning::OnNothingFound(const planner::PlanOutcome& outcome, const Job& job, Instant now) {
  changes_.Note({.view = true});
  if (AskTheSlow(now)) return;
  missing_memory_bytes_ = outcome.missing_memory_bytes;
  covered_end_ = 0;
  if (job.workers.empty()) {
    problem_ = "No device computes for this swarm yet: open the join link on a device.";
    for (const auto& [id, worker] : roster_) {
      if (!worker.ready) continue;
      problem_ = "The devices that have joined cannot be used: open the join link on another one.";
      if (worker.offer.needs_onnx && !options_.model.has_onnx)
        problem_ =
            "This model has operations that onnxruntime lacks: open the join link in a browser "
            "with WebGPU, or start `weft worker` on a device.";
      if (!worker.offer.runs_groups && options_.model.is_in_groups())
        problem_ =
            "This model is in neuron groups, which no device that has joined runs: open the join "
            "link "
            "in a browser with WebGPU, or start `weft worker` on a device.";
      if (!RunsDTypes(worker.offer, options_.model))
        problem_ = "This model has weights of the form " +
                   std::string(DTypeName(options_.model.dtypes.front())) +
                   ", which no device that has joined runs: update weft on it, or start `weft "
                   "worker` on a device.";
      if (!worker.offer.keeps_state && options_.model.is_recurrent())
        problem_ =
            "This model has recurrent layers, which browsers do not run: start `weft worker` "
            "on a device.";
    }
    return TellWhoCannotLoad();
  }
  problem_ = outcome.problem;
  if (missing_memory_bytes_ > 0)
    problem_ = "This swarm needs " + HumanBytes(missing_memory_bytes_) +
               " more memory: open the join link on another device.";
  TellWhoCannotLoad();
  if (!outcome.partial || IsHub(job.form)) return;
  for (const planner::StageAssignment& stage : outcome.partial->stages) {
    Worker* worker = roster_.Find(job.workers[static_cast<size_t>(stage.worker)]);
    lifecycle_.Download(*worker, static_cast<uint32_t>(stage.first_layer),
                        static_cast<uint32_t>(stage.end_layer));
    covered_end_ = std::max(covered_end_, static_cast<uint32_t>(stage.end_layer));
  }
}

}  // namespace weft::swarm
