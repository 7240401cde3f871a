// Pauses between attempts to connect: none before the first, then doubling from 1 s to 30 s. Jitter
// keeps all workers from meeting a restarted server in one instant. A worker that still holds its
// sessions is missed, and asks for a shorter limit. A swarm with too few others stands still for as
// long as the pause is. The same in TypeScript: web/packages/worker/src/threads/backoff.ts.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"

namespace weft::apps {

class Backoff {
 public:
  explicit Backoff(uint64_t seed, Duration shortest = Seconds(1), Duration longest = Seconds(30))
      : shortest_(shortest), longest_(longest), random_(seed) {}

  // Begins without a pause again, after a connection that was good.
  void Reset() { next_ = {}; }
  // The pause before the next attempt, at most `limit` before the jitter.
  Duration Next(Duration limit) {
    const auto us = static_cast<double>(std::min(next_, limit).us);
    const Duration pause{static_cast<int64_t>(us * (0.75 + 0.5 * random_.Uniform()))};
    next_ = std::clamp(next_ * 2, shortest_, longest_);
    return pause;
  }
  Duration Next() { return Next(longest_); }

 private:
  const Duration shortest_, longest_;
  SeededRandom random_;
  Duration next_;
};

}  // namespace weft::apps
