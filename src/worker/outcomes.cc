#include "worker/outcomes.h"

#include "worker/answers.h"

namespace weft::worker {

namespace pb = wire::pb;

void Outcomes::On(WorkDone event) {
  const StepQueue::Running ran = queue_.Ended();
  if (ran.install) loads_.OnReadOver();
  if (ran.unanswered) return;
  if (ran.takes_stock) return joining_.OnStock(std::get<Stock>(std::move(event.outcome).value()));
  if (ran.install) return loads_.OnInstalled(*ran.install, event.outcome);
  if (ran.measures) return OnTimings(event.outcome);
  if (!ran.generates.empty()) return queue_.OnMadeTokens(ran, std::move(event.outcome));
  if (ran.experts_for)
    return experts_.OnResults(*ran.experts_for,
                              std::get<ExpertResults>(std::move(event.outcome).value()));
  if (ran.step) return queue_.OnStepDone(ran, std::move(event.outcome));
  // Sampling that cannot be.
  if (!event.outcome.ok()) out_.Finish(std::move(event.outcome).error());
}

void Outcomes::OnTimings(const Result<Outcome>& outcome) {
  loads_.Unload();  // what was loaded only to be measured
  if (!outcome.ok()) return out_.Send(FailedMessage(0, outcome.error()));
  pb::WorkerMessage message;
  const auto& timings = std::get<Timings>(*outcome);
  message.mutable_measured();  // which may be empty
  for (const ProbeAnswer& answer : timings.answers) {
    auto& said = *message.mutable_measured()->add_answers();
    said.set_digest(std::string(AsText(answer.digest)));
    said.mutable_samples()->Assign(answer.samples.begin(), answer.samples.end());
  }
  for (const Timing& measured : timings.of_ranges) {
    auto& timing = *message.mutable_measured()->add_timings();
    timing.mutable_layers()->set_first(measured.layers.first);
    timing.mutable_layers()->set_end(measured.layers.end);
    for (const Duration run : measured.runs) timing.add_run_us(static_cast<uint64_t>(run.us));
  }
  out_.Send(std::move(message));
}

}  // namespace weft::worker
