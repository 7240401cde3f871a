#include "worker/keeping.h"

#include <algorithm>

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

bool Keeping::IsOutdated(const wire::pb::Init& init) const {
  return init.incarnation() > 0 && init.incarnation() < SeenOf(init);
}

void Keeping::See(const wire::pb::Init& init) {
  seen_incarnation_ = std::max(SeenOf(init), init.incarnation());
  seen_swarm_id_ = init.swarm_id();
}

uint64_t Keeping::SeenOf(const wire::pb::Init& init) const {
  return seen_swarm_id_ == init.swarm_id() ? seen_incarnation_ : 0;
}

}  // namespace weft::worker
