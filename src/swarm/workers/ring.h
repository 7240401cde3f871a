// The last N measurements; their median is what decisions use (dynamic-graph-partitioning 4.3.2).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace weft::swarm {

template <size_t N>
class Ring {
 public:
  void Add(double value) {
    values_[next_] = value;
    next_ = (next_ + 1) % N;
    count_ = std::min(count_ + 1, N);
  }
  void Clear() { next_ = count_ = 0; }
  size_t count() const { return count_; }

  // The lower of the two middle values when their number is even; nullopt without values.
  std::optional<double> Median() const {
    if (count_ == 0) return std::nullopt;
    std::array<double, N> sorted = values_;
    const size_t middle = (count_ - 1) / 2;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(middle),
                     sorted.begin() + static_cast<std::ptrdiff_t>(count_));
    return sorted[middle];
  }
  std::optional<double> Largest() const {
    if (count_ == 0) return std::nullopt;
    return *std::max_element(values_.begin(),
                             values_.begin() + static_cast<std::ptrdiff_t>(count_));
  }

 private:
  std::array<double, N> values_{};
  size_t next_ = 0, count_ = 0;
};

}  // namespace weft::swarm
