// One device that runs the whole model, because its user wants it to.
#include "swarm/plan/planning.h"

namespace weft::swarm {

bool Planning::FitsWhole(const Worker& worker, Instant now) const {
  return worker.ready && worker.CanGenerate() && options_.model.lowered &&
         !worker.loading->paused_until && !probation_.IsAside(worker.probation_key, now) &&
         checks_.MayCompute(worker) &&
         costs_.MemoryBytes(worker.memory->weight_factor, {0, costs_.layer_count()}) <=
             worker.limit->bytes;
}

bool Planning::IsChosen(const SwarmPlan* plan) const {
  return plan && whole_on_ && plan->stages.size() == 1 && plan->stages[0].worker == *whole_on_;
}

void Planning::RunWholeOn(Worker& worker, bool wanted, Instant now) {
  worker.told_whole.edit().reset();  // it gets an answer in any case
  if (wanted ? !FitsWhole(worker, now) : whole_on_ != worker.id) return;
  if (wanted)
    whole_on_ = worker.id;
  else
    whole_on_.reset();
  job_.reset();  // what is being looked for is not wanted any more
  changes_.Note({.standbys = true});
  Want(now);
  changes_.Note({.view = true});
}

void Planning::TellWhole(Instant now) {
  for (auto& [id, worker] : roster_) {
    if (!worker.ready || !worker.CanGenerate()) continue;
    if (*worker.told_whole != WholeState(worker, now)) TellWhole(worker, "", now);
  }
}

void Planning::TellWhole(Worker& worker, const std::string& message, Instant now) {
  worker.told_whole.edit() = WholeState(worker, now);
  SendData data{worker.id, {}};
  data.pieces.emplace_back(wire::EncodeWholeFrame(wire::WholeModel{**worker.told_whole, message}));
  outbox_.Add(std::move(data));
}

wire::WholeModel::State Planning::WholeState(const Worker& worker, Instant now) const {
  using State = wire::WholeModel::State;
  if (whole_on_ == worker.id) return State::kHere;
  if (!FitsWhole(worker, now)) return State::kTooLarge;
  return *worker.whole_asked ? State::kAsked : State::kFits;
}

bool Planning::AllowsSidePlans() const {
  const SwarmPlan* active = lifecycle_.active();
  return active != nullptr && !active->is_hub() && !whole_on_ && !wants_steady_;
}

bool Planning::MayServeBeside(const Worker& worker, Instant now) const {
  return lifecycle_.serves() && worker.SpeedKnown() && !worker.offer.needs_onnx &&
         worker.measure->phase == MeasureJob::Phase::kNone &&
         IsEligible(worker, LayerForm::kWhole, now);
}

}  // namespace weft::swarm
