// Round trips of the last dispatches to one worker: what its next one may take.
#pragma once

#include <array>
#include <cstddef>

#include "base/clock.h"

namespace weft::dispatch {

// Expected of a worker that has not answered yet.
inline constexpr double kUnknownRoundTripUs = 30'000;

class LatencyWindow {
 public:
  static constexpr size_t kSamples = 64;

  void Add(Duration round_trip);
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  // The sample that at least this share of the samples does not exceed. REQUIRES: !empty(), 0 to 1.
  Duration Quantile(double share) const;
  // Samples longer than this.
  size_t CountAbove(Duration round_trip) const;
  // REQUIRES: !empty().
  Duration Mean() const { return Microseconds(sum_.us / static_cast<int64_t>(count_)); }

 private:
  std::array<Duration, kSamples> ring_{};    // by age
  std::array<Duration, kSamples> sorted_{};  // the same
  Duration sum_;
  size_t next_ = 0, count_ = 0;
};

}  // namespace weft::dispatch
