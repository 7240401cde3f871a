// ShareCost: what a share of a layer costs at a holder, as its answers so far say.
//
//   it takes   way + experts * each      12 experts, A: 0 + 30 us each, B: 80 us away, 40 us each
//   so A gets 8 and B 4:                 A 8 * 30 = 240 us, B 80 + 4 * 40 = 240 us
//
// A holder says with its answer how long it computed, and the rest of the round trip is the way.
// The way is what the quicker answers took for it: a hub that computes takes an answer late. Of
// holders that do not say so, all of the round trip counts for the experts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace weft::dispatch {

class ShareCost {
 public:
  // An answer to `work` experts (times rows where these are many) came after `round_trip`.
  // `computed`: for so long of it they were computed.
  void Note(Duration round_trip, std::optional<Duration> computed, double work) {
    Note(round_trip, computed, work, false);
  }
  // The same where each expert's answer is long: its part of the way grows with their number.
  void NoteLongAnswers(Duration round_trip, std::optional<Duration> computed, double work) {
    Note(round_trip, computed, work, true);
  }
  bool is_known() const { return each_us_.has_value(); }
  // What so many experts will take. REQUIRES: is_known().
  double Us(double work) const { return (way_us_ + work * *each_us_) / doubt_; }
  // Nobody knows whether who is too slow to be asked has become faster: it looks faster by so much
  // with every layer, until it is asked again.
  void Forget() { doubt_ *= kForgetting; }

 private:
  static constexpr double kNewShare = 0.25, kForgetting = 1.002;
  static constexpr double kFewExperts = 3;
  static constexpr size_t kWays = 16;

  void Note(Duration round_trip, std::optional<Duration> computed, double work, bool is_long) {
    const double all_us = std::max(1.0, static_cast<double>(round_trip.us));
    double own_us = all_us;
    if (computed) {
      own_us = std::clamp(static_cast<double>(computed->us), 1.0, all_us);
      ways_[way_count_++ % kWays] = all_us - own_us;
      auto known = ways_;
      const size_t count = std::min(way_count_, kWays);
      std::nth_element(known.begin(), known.begin() + (count - 1) / 4, known.begin() + count);
      way_us_ = known[(count - 1) / 4];
      if (is_long) own_us += std::exchange(way_us_, 0);
    }
    const double each_us = own_us / work;
    // What is the same for any number of experts counts too much in an answer of one or two.
    const bool says_less = work < kFewExperts && each_us_ && each_us > *each_us_;
    if (!says_less) each_us_ = each_us_ ? *each_us_ + kNewShare * (each_us - *each_us_) : each_us;
    doubt_ = 1;
  }

  std::optional<double> each_us_;
  double way_us_ = 0;
  std::array<double, kWays> ways_{};
  size_t way_count_ = 0;
  double doubt_ = 1;
};

}  // namespace weft::dispatch
