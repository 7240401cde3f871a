#include "swarm/incarnation.h"

#include <algorithm>

namespace weft::swarm {

uint64_t NextIncarnation(uint64_t recorded, int64_t unix_ms) {
  return std::max(recorded + 1, static_cast<uint64_t>(std::max<int64_t>(unix_ms, 0)));
}

Result<OwnIncarnation::Heard> OwnIncarnation::Hear(uint64_t seen) const {
  if (seen <= number_) return Heard::kServe;
  if (seen - number_ <= kMostAhead) return Heard::kIsOutdated;
  return Error(ErrorCode::kInvalidData, "Connect says that incarnation " + std::to_string(seen) +
                                            " of this swarm was seen, expected at most " +
                                            std::to_string(number_ + kMostAhead) + ".");
}

void OwnIncarnation::Raise(uint64_t seen) {
  if (seen < number_) return;
  RaiseTo(seen + 1);
}

void OwnIncarnation::RaiseTo(uint64_t number) {
  if (number <= number_) return;
  number_ = number;
  ++version_;
}

}  // namespace weft::swarm
