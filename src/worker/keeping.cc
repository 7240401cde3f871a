#include "worker/keeping.h"

namespace weft::worker {

void Keeping::Begin(const wire::pb::Init& init) {
  held_for_ = {init.swarm_id(), init.package_digest(), Milliseconds(init.resume_ms())};
  lost_until_.reset();
}

Duration Keeping::Lost(Instant now) {
  if (!held_for_ || held_for_->swarm_id.empty()) return {};
  if (!lost_until_) lost_until_ = now + held_for_->time;
  return IsOver(now) ? Duration{} : *lost_until_ - now;
}

bool Keeping::Fits(const wire::pb::Init& init, Instant now) const {
  return held_for_ && !held_for_->swarm_id.empty() && !IsOver(now) &&
         held_for_->swarm_id == init.swarm_id() &&
         held_for_->package_digest == init.package_digest();
}

}  // namespace weft::worker
