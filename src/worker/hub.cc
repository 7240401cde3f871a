#include "worker/hub.h"

#include <algorithm>

#include "base/check.h"
#include "wire/expert_sets.h"

namespace weft::worker {

bool Hub::CanBegin(std::span<const wire::Run> runs) const {
  const bool has_place = std::any_of(steps_.begin(), steps_.end(),
                                     [](const Step& step) { return step.phase == Phase::kFree; });
  return has_place && std::none_of(runs.begin(), runs.end(),
                                   [this](const wire::Run& run) { return Uses(run.session); });
}

bool Hub::Uses(uint32_t session) const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [session](const Step& step) { return step.sessions.contains(session); });
}

bool Hub::IsIdle() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.phase == Phase::kFree; });
}

uint32_t Hub::Begin(uint64_t number, std::span<const wire::Run> runs) {
  const auto step = std::find_if(steps_.begin(), steps_.end(),
                                 [](const Step& each) { return each.phase == Phase::kFree; });
  CHECK(step != steps_.end());
  step->phase = Phase::kComputes;
  step->number = number;
  for (const wire::Run& run : runs) step->sessions.insert(run.session);
  return static_cast<uint32_t>(step - steps_.begin());
}

void Hub::Wait(Instant now, uint32_t place, const StepWaits& waits) {
  CHECK(steps_[place].phase == Phase::kComputes);
  steps_[place].phase = Phase::kWaits;
  Apply(dispatcher_.Begin(
      now, place,
      {waits.layer, waits.top_k, waits.columns, waits.rows, waits.experts, waits.sums}));
}

std::optional<ResumeStep> Hub::Next() {
  for (uint32_t place = 0; place < steps_.size(); ++place) {
    Step& step = steps_[place];
    if (step.phase != Phase::kReady) continue;
    step.phase = Phase::kComputes;
    return ResumeStep{place, std::exchange(step.slot_rows, {})};
  }
  return std::nullopt;
}

uint64_t Hub::End(uint32_t place) {
  CHECK(steps_[place].phase == Phase::kComputes);
  return std::exchange(steps_[place], {}).number;
}

std::vector<Hub::Abandoned> Hub::AbandonStuck(Instant now) {
  std::vector<Abandoned> abandoned;
  for (uint32_t place = 0; place < steps_.size(); ++place) {
    if (steps_[place].phase != Phase::kWaits || !dispatcher_.IsMissing(place)) continue;
    Apply(dispatcher_.Abandon(now, place));
    abandoned.push_back({place, std::exchange(steps_[place], {}).number});
  }
  return abandoned;
}

Status Hub::SetHolders(Instant now, const wire::pb::ExpertHolders& statement,
                       uint32_t layer_count) {
  std::vector<dispatch::Holder> holders;
  for (const auto& named : statement.holders()) {
    ASSIGN_OR_RETURN(const auto layers, wire::ReadExpertSets(named.sets(), layer_count));
    dispatch::Holder& holder = holders.emplace_back();
    holder.id = named.peer();
    for (const wire::LayerExperts& layer : layers)
      for (const uint32_t expert : layer.experts)
        holder.experts.emplace_back(static_cast<uint16_t>(layer.layer),
                                    static_cast<uint16_t>(expert));
  }
  self_ = statement.self();
  dispatcher_.FixCopies(statement.copies());
  Apply(dispatcher_.SetHolders(now, statement.epoch(), std::move(holders)));
  return OkStatus();
}

void Hub::Hear(Instant now, uint32_t holder, std::span<const wire::ExpertFrame> frames) {
  for (const wire::ExpertFrame& frame : frames) {
    if (frame.type == wire::ExpertFrameType::kResult)
      Apply(dispatcher_.OnResult(now, holder, frame));
    else if (frame.type == wire::ExpertFrameType::kHeartbeat)
      Apply(dispatcher_.OnHeartbeat(now, holder, wire::ReadHeartbeat(frame)));
  }
}

void Hub::OnMalformed(Instant now, uint32_t holder, const std::string& sentence) {
  Apply(dispatcher_.OnMalformed(now, holder, sentence));
}

void Hub::OnTimer(Instant now) {
  Apply(dispatcher_.OnTimer(now));
}

void Hub::Clear() {
  *this = Hub(options_);
}

void Hub::Apply(dispatch::Actions actions) {
  timer_ = actions.timer;
  std::move(actions.sends.begin(), actions.sends.end(), std::back_inserter(sends_));
  for (dispatch::Done& done : actions.done) {
    CHECK(steps_[done.batch].phase == Phase::kWaits);
    steps_[done.batch].phase = Phase::kReady;
    steps_[done.batch].slot_rows = std::move(done.slot_rows);
  }
}

}  // namespace weft::worker
