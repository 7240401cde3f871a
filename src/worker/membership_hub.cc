// Membership's part for steps whose experts are elsewhere: who can be asked, and what has to wait
// for such steps.
#include <algorithm>

#include "worker/membership.h"

namespace weft::worker {

namespace pb = wire::pb;

void Membership::OnExpertHolders(const pb::ExpertHolders& message) {
  if (!offer_.can_be_hub)
    return Violation("The server sent ExpertHolders to a worker that cannot be a hub.");
  if (Status status = hub_.SetHolders(now_, message, layer_count_); !status.ok())
    return End(std::move(status).error());
  CarryHub();
}

void Membership::On(TimerDue&) {
  wakes_at_.reset();
  hub_.OnTimer(now_);
  for (auto& [hub, sender] : senders_) sender.OnTimer(now_);
  CarryHub();
}

void Membership::CarryHub() {
  for (dispatch::Send& send : hub_.TakeSends()) SayShards(send.holder, std::move(send.frames));
  if (auto datagrams = hub_.TakeDatagrams(); !datagrams.empty())
    actions_.push_back(SendDatagrams{std::move(datagrams)});
  CarrySenders();
  std::optional<Instant> wanted = hub_.timer();
  for (const auto& [hub, sender] : senders_)
    if (const auto due = sender.timer(); due && (!wanted || *due < *wanted)) wanted = due;
  if (wanted == wakes_at_) return;
  wakes_at_ = wanted;
  actions_.push_back(WakeAt{wakes_at_});
}

// Steps that wait hold their sessions and layers, and their engine has room for so many of them.
bool Membership::IsHeldUp(const Waiting& waiting) const {
  const auto* work = std::get_if<Work>(&waiting);
  if (work == nullptr || hub_.IsIdle()) return false;
  if (const auto* step = std::get_if<RunStep>(work))
    return step->shards && !hub_.CanBegin(step->frame.runs);
  if (const auto* fork = std::get_if<ForkSession>(work))
    return fork->shards && (hub_.Uses(fork->fork.from) || hub_.Uses(fork->fork.to));
  if (const auto* sampling = std::get_if<TakeSampling>(work))
    return hub_.Uses(sampling->message.session());
  if (const auto* release = std::get_if<ReleaseSessions>(work))
    return std::any_of(release->sessions.begin(), release->sessions.end(),
                       [this](uint32_t session) { return hub_.Uses(session); });
  return std::holds_alternative<KeepLayers>(*work) || std::holds_alternative<ReleaseAll>(*work) ||
         std::holds_alternative<TakeStock>(*work);
}

// Other steps end by themselves soon.
bool Membership::AbandonStuckFor(const Waiting& waiting) {
  const Work& work = std::get<Work>(waiting);
  if (std::holds_alternative<RunStep>(work) || std::holds_alternative<TakeSampling>(work) ||
      std::holds_alternative<ForkSession>(work))
    return false;
  AbandonSteps abandon;
  for (const auto& [place, number] : hub_.AbandonStuck(now_)) {
    abandon.places.push_back(place);
    FailStep(number, Error(ErrorCode::kUnavailable,
                           "The step was given up while nobody held the experts that it needed."));
  }
  if (abandon.places.empty()) return false;
  waiting_.push_front(Work(std::move(abandon)));
  CarryHub();
  return true;
}

bool Membership::BeginResume() {
  auto next = hub_.Next();
  if (!next) return false;
  Running running;
  running.place = next->place;
  running.step = hub_.NumberOf(next->place);
  running_ = running;
  experts_turn_ = true;
  actions_.push_back(Compute{*std::move(next)});
  return true;
}

// Whoever held experts has no answer for another connection.
void Membership::ForgetHub() {
  if (!hub_.IsIdle()) {
    AbandonSteps abandon;
    for (uint32_t place = 0; place < engine::kStepsInFlight; ++place)
      abandon.places.push_back(place);
    waiting_.push_front(Work(std::move(abandon)));
  }
  hub_.Clear();
  CarryHub();
}

std::vector<engine::LayerRange> Membership::KeptWhole() const {
  const std::vector<engine::LayerRange> hubs = stages_.Ranges(true);
  if (hubs.empty()) return kept_;
  std::vector<engine::LayerRange> kept;
  for (const engine::LayerRange range : kept_)
    for (uint32_t layer = range.first; layer < range.end; ++layer)
      if (std::none_of(hubs.begin(), hubs.end(), [layer](engine::LayerRange hub) {
            return hub.first <= layer && layer < hub.end;
          }))
        kept.push_back({layer, layer + 1});
  return kept;
}

}  // namespace weft::worker
