#include "cluster/splice.h"

namespace weft::cluster {

bool Leadership::OnFound(LinkId link, Incarnation incarnation) {
  if (incarnation < incarnation_) return false;
  const bool is_known = link == leader_ && incarnation == incarnation_;
  leader_ = link;
  incarnation_ = incarnation;
  return !is_known;
}

bool Leadership::OnLost(LinkId link) {
  if (link != leader_ || !leader_.is_set()) return false;
  leader_ = LinkId();
  return true;
}

AttemptId Splice::Ask() {
  attempt_ = last_attempt_ = last_attempt_.Next();
  return attempt_;
}

Splice::Taken Splice::OnToken(AttemptId attempt, size_t index, int32_t token_id) {
  if (!is_current(attempt)) return Taken::kStale;
  if (index > answer_.size()) {
    ++vain_;
    return Taken::kTooFar;
  }
  if (index < answer_.size()) {
    if (answer_[index] != token_id) ++differences_;
    return Taken::kKnown;
  }
  vain_ = 0;
  answer_.push_back(token_id);
  return Taken::kGiven;
}

Splice::Ending Splice::OnEnd(AttemptId attempt, std::optional<size_t> generated) {
  if (!is_current(attempt)) return Ending::kStale;
  if (generated && *generated > answer_.size()) {
    ++vain_;
    return Ending::kShort;
  }
  attempt_ = AttemptId();
  return Ending::kEnd;
}

}  // namespace weft::cluster
