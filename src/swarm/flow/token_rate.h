// Tokens per second over the last few whole seconds, in constant space.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace weft::swarm {

class TokenRate {
 public:
  void Add(Instant now) {
    Slot& slot = slots_[SlotOf(Second(now))];
    if (slot.second != Second(now)) slot = {Second(now), 0};
    ++slot.count;
  }
  // Of the last kSeconds seconds that have passed entirely, the running one left out.
  double PerSecond(Instant now) const {
    const int64_t second = Second(now);
    uint64_t count = 0;
    int64_t earliest = second;
    for (const Slot& slot : slots_)
      if (slot.second < second && slot.second >= second - kSeconds) {
        count += slot.count;
        earliest = slot.second < earliest ? slot.second : earliest;
      }
    return count == 0 ? 0 : static_cast<double>(count) / static_cast<double>(second - earliest);
  }

 private:
  static constexpr int64_t kSeconds = 4;
  struct Slot {
    int64_t second = INT64_MIN / 2;
    uint64_t count = 0;
  };
  static int64_t Second(Instant now) { return now.us / 1'000'000; }
  static size_t SlotOf(int64_t second) { return static_cast<size_t>(second) % (kSeconds + 2); }
  std::array<Slot, kSeconds + 2> slots_;
};

}  // namespace weft::swarm
