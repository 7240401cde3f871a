#include "swarm/core/core.h"

#include "base/check.h"
#include "swarm/core/state.h"

namespace weft::swarm {

Core::Core(CoreOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Core::~Core() = default;
Core::Core(Core&&) noexcept = default;
Core& Core::operator=(Core&&) noexcept = default;

std::vector<Action> Core::Handle(const Event& event, Instant now) {
  CHECK(now >= state_->now, "time went backwards");
  state_->now = now;
  if (!state_->placements.is_restored()) state_->placements.Restore(now);
  if (state_->PassOn(event)) return state_->TakeActions();
  std::visit([this](const auto& e) { state_->On(e); }, event);
  state_->Settle(std::holds_alternative<WorkerData>(event));
  return state_->TakeActions();
}

std::optional<Instant> Core::next_timer() const {
  return state_->next_timer();
}

bool Core::is_up() const {
  return state_->lifecycle.active() != nullptr;
}

Snapshot Core::snapshot(Instant now) const {
  return state_->MakeSnapshot(now);
}

std::optional<RequestProgress> Core::progress(RequestId request) const {
  return state_->requests.ProgressOf(request);
}

Placement Core::placement() const {
  return state_->placements.Take(state_->now);
}

uint64_t Core::placement_version() const {
  return state_->placements.version(state_->now);
}

CoreSizes Core::sizes() const {
  CoreSizes sizes;
  sizes.workers = state_->roster.count();
  sizes.sessions = state_->sessions.sessions().size();
  sizes.waiting_requests = state_->requests.waiting_count();
  sizes.probation_records = state_->probation.record_count();
  sizes.waiting_rows = state_->pipelines.waiting_rows();
  sizes.history_trims = state_->sessions.history_trims();
  for (const auto& session : state_->sessions.sessions())
    sizes.session_tokens += session->tokens.size();
  for (const auto& [id, worker] : state_->roster) {
    sizes.frames_in_flight += worker.steps->in_flight.size() + worker.steps->generating.size();
    sizes.open_pings += worker.pings->open.size();
  }
  return sizes;
}

}  // namespace weft::swarm
