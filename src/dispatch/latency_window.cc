#include "dispatch/latency_window.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weft::dispatch {

void LatencyWindow::Add(Duration round_trip) {
  const auto begin = sorted_.begin();
  auto end = begin + static_cast<std::ptrdiff_t>(count_);
  sum_ = sum_ + round_trip;
  if (count_ == kSamples) {
    sum_ = sum_ - ring_[next_];
    std::copy(std::lower_bound(begin, end, ring_[next_]) + 1, end,
              std::lower_bound(begin, end, ring_[next_]));
    --end;
  } else {
    ++count_;
  }
  const auto place = std::upper_bound(begin, end, round_trip);
  std::copy_backward(place, end, end + 1);
  *place = round_trip;
  ring_[next_] = round_trip;
  next_ = (next_ + 1) % kSamples;
}

Duration LatencyWindow::Quantile(double share) const {
  CHECK(count_ > 0 && share >= 0 && share <= 1);
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(count_)));
  return sorted_[rank == 0 ? 0 : rank - 1];
}

size_t LatencyWindow::CountAbove(Duration round_trip) const {
  const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(count_);
  return static_cast<size_t>(end - std::upper_bound(sorted_.begin(), end, round_trip));
}

}  // namespace weft::dispatch
