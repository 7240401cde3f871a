// Pauses between attempts to connect: none before the first, then doubling from 1 s to 30 s, with
// jitter, so that a server that restarts is not met by all its workers in one instant. The same in
// TypeScript: web/packages/worker/src/threads/backoff.ts.
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
  // The pause before the next attempt.
  Duration Next() {
    const Duration pause{
        static_cast<int64_t>(static_cast<double>(next_.us) * (0.75 + 0.5 * random_.Uniform()))};
    next_ = std::clamp(next_ * 2, shortest_, longest_);
    return pause;
  }

 private:
  const Duration shortest_, longest_;
  SeededRandom random_;
  Duration next_;
};

}  // namespace weft::apps
