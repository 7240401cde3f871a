// TokenBucket: how often something may happen: so many times at once, and then as it fills.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace weft {

class TokenBucket {
 public:
  // Full: `most` times at once, and `per_s` more each second.
  TokenBucket(double most, double per_s, Instant now)
      : most_(most), per_s_(per_s), left_(most), at_(now) {}

  // Whether it may happen (or as much as `count` of it) now. It then counts.
  bool Take(Instant now, double count = 1) {
    left_ = std::min(most_, left_ + (now - at_).seconds() * per_s_);
    at_ = now;
    if (left_ < count) return false;
    left_ -= count;
    return true;
  }
  Instant last_asked_at() const { return at_; }

 private:
  double most_, per_s_, left_;
  Instant at_;
};

}  // namespace weft
