// What the swarm did over the last day: tokens, devices, and how much of the time it could answer.
// GET /api/swarm/history gives it to the pages. It holds sums over stretches of time, short ones of
// the last hour and longer ones of the last day, and is empty after a restart.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "swarm/snapshot.h"

namespace weft::server {

class SwarmHistory {
 public:
  SwarmHistory();

  // Notes what the snapshot says. `now` never goes back; looks may come in any distance.
  void Add(Instant now, const swarm::Snapshot& snapshot);
  // {"levels": [{"step_s": 10, "tokens_per_s": [...], "devices": [...], "up": [...]}, ...]}, oldest
  // first. The last stretch is the one that `now` is in; null stands where nobody looked.
  std::string ToJson(Instant now) const;

 private:
  // Sums over one stretch of time.
  struct Stretch {
    uint32_t looks = 0, up_looks = 0;
    Duration seen;         // since the look before each look, where that was not long ago
    uint64_t tokens = 0;   // that were made since the look before
    uint64_t devices = 0;  // of all looks together
  };
  struct Level {
    Duration width;
    size_t most_stretches = 0;
    int64_t end = 0;  // the number of the stretch behind the last one of `stretches`
    std::deque<Stretch> stretches;
  };

  static void Advance(Level& level, Instant now);

  std::vector<Level> levels_;
  uint64_t last_tokens_ = 0;
  Instant last_look_;
};

}  // namespace weft::server
