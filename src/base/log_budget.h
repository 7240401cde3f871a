// LogBudget: how many lines may be written, so many a second with a burst, and how many were not.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace weft {

class LogBudget {
 public:
  LogBudget() = default;
  LogBudget(double lines_per_second, double burst_lines)
      : lines_per_second_(lines_per_second), burst_lines_(burst_lines), lines_(burst_lines) {}

  struct Verdict {
    bool write = false;
    uint64_t left_out = 0;  // lines since the last one that was written
  };
  // For one line now; `now` never goes backwards.
  Verdict Take(Instant now) {
    lines_ = std::min(burst_lines_, lines_ + (now - last_).seconds() * lines_per_second_);
    last_ = now;
    if (lines_ < 1) {
      ++left_out_;
      return {};
    }
    lines_ -= 1;
    const Verdict verdict{true, left_out_};
    left_out_ = 0;
    return verdict;
  }

 private:
  double lines_per_second_ = 0;
  double burst_lines_ = 0;
  double lines_ = 0;
  Instant last_;
  uint64_t left_out_ = 0;
};

}  // namespace weft
