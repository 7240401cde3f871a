// TimeBuckets: how often something took how long, which is what a histogram of /metrics is made
// of. A value; no threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace weft {

class TimeBuckets {
 public:
  // Upper ends in seconds. A step of a GPU takes one millisecond, a prompt on a phone two minutes.
  static constexpr std::array<double, 17> kEndsS = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};

  void Add(Duration duration) {
    const double seconds = std::max(0.0, duration.seconds());
    const auto bucket = std::lower_bound(kEndsS.begin(), kEndsS.end(), seconds);
    ++counts_[static_cast<size_t>(bucket - kEndsS.begin())];
    ++count_;
    sum_s_ += seconds;
  }

  // Of each bucket alone; the last one has what took longer than all ends.
  const std::array<uint64_t, kEndsS.size() + 1>& counts() const { return counts_; }
  uint64_t count() const { return count_; }
  double sum_s() const { return sum_s_; }

 private:
  std::array<uint64_t, kEndsS.size() + 1> counts_{};
  uint64_t count_ = 0;
  double sum_s_ = 0;
};

}  // namespace weft
