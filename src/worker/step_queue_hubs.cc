// Steps whose experts are elsewhere: what has to wait for them, and when they go on.
#include <algorithm>

#include "worker/step_queue.h"

namespace weft::worker {

// Steps that wait hold their sessions and layers, and their engine has room for so many of them.
bool StepQueue::IsHeldUp(const Waiting& waiting) const {
  const auto* work = std::get_if<Work>(&waiting);
  if (work == nullptr || experts_.hub().IsIdle()) return false;
  if (const auto* step = std::get_if<RunStep>(work))
    return IsHub(step->form) && !experts_.hub().CanBegin(step->frame.runs);
  if (const auto* fork = std::get_if<ForkSession>(work))
    return IsHub(fork->form) &&
           (experts_.hub().Uses(fork->fork.from) || experts_.hub().Uses(fork->fork.to));
  if (const auto* sampling = std::get_if<TakeSampling>(work))
    return experts_.hub().Uses(sampling->message.session());
  if (const auto* release = std::get_if<ReleaseSessions>(work))
    return std::any_of(release->sessions.begin(), release->sessions.end(),
                       [this](uint32_t session) { return experts_.hub().Uses(session); });
  return std::holds_alternative<KeepLayers>(*work) || std::holds_alternative<ReleaseAll>(*work) ||
         std::holds_alternative<TakeStock>(*work);
}

// Other steps end by themselves soon.
bool StepQueue::AbandonStuckFor(const Waiting& waiting) {
  const Work& work = std::get<Work>(waiting);
  if (std::holds_alternative<RunStep>(work) || std::holds_alternative<TakeSampling>(work) ||
      std::holds_alternative<ForkSession>(work))
    return false;
  AbandonSteps abandon;
  for (const auto& [place, number] : experts_.hub().AbandonStuck(out_.now())) {
    abandon.places.push_back(place);
    FailStep(number, Error(ErrorCode::kUnavailable,
                           "The step was given up while nobody held the experts that it needed."));
  }
  if (abandon.places.empty()) return false;
  PushFront(std::move(abandon));
  experts_.Carry();
  return true;
}

bool StepQueue::BeginResume() {
  auto next = experts_.hub().Next();
  if (!next) return false;
  Running running;
  running.place = next->place;
  running.step = experts_.hub().NumberOf(next->place);
  running_.push_back(std::move(running));
  experts_turn_ = true;
  out_.Do(Compute{*std::move(next)});
  return true;
}

void StepQueue::BeginPrediction() {
  const auto place = experts_.hub().TakePrediction();
  if (!place) return;
  running_.emplace_back();
  out_.Do(Compute{PredictNext{*place}});
}

// Whoever held experts has no answer for another connection.
void StepQueue::ForgetHub() {
  if (!experts_.hub().IsIdle()) {
    AbandonSteps abandon;
    for (uint32_t place = 0; place < engine::kStepsInFlight; ++place)
      abandon.places.push_back(place);
    PushFront(std::move(abandon));
  }
  experts_.ForgetHub();
}

void StepQueue::SayLosses(uint64_t number, uint32_t place) {
  const std::map<uint32_t, uint32_t>& lost = experts_.hub().LostOf(place);
  if (lost.empty()) return;
  Answer& answer = answers_.at(number - first_answer_);
  auto& message = *answer.before.emplace().mutable_groups_lost();
  message.set_sequence(answer.sequence);
  message.set_binding(answer.binding);
  for (const auto& [session, groups] : lost) {
    message.add_sessions(session);
    message.add_groups(groups);
  }
}

}  // namespace weft::worker
