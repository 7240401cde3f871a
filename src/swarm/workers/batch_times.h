// How long a worker takes for steps of several rows, as measured. One row's time says little about
// a chunk's: weights are read once for all its rows, so 128 rows may take as long as five. Not a
// prediction for plans, which count single rows; deadlines and lengths of frames are made of it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "swarm/workers/ring.h"

namespace weft::swarm {

class BatchTimes {
 public:
  // A step of `rows` rows took this long from when it was the worker's oldest to its answer.
  void Add(uint32_t rows, double elapsed_us) {
    if (rows == 0) return;
    const size_t own = Class(rows);
    rings_[own].Add(elapsed_us / rows);
    const auto count = static_cast<double>(rings_[own].count());
    mean_rows_[own] += (rows - (count > 1 ? mean_rows_[own] : 0.0)) / count;
    doubts_[own] = 0;
    ForgetDoubted(own);
  }
  void Clear() {
    rings_.fill({});
    doubts_.fill(0);
  }

  // What a step of so many rows is expected to take; nullopt: neither its class nor one of fewer
  // rows has been measured often enough.
  //
  // Rows are classed by powers of two (1, 2-3, 4-7, ...). Each class that was measured is a point:
  // the mean of its rows, and the median time of a row times that. Between two points the time is
  // on the line through both. Behind the last one, and in front of the first in its own class, a
  // row costs what it does there: too much behind it, since a row costs less the more there are.
  //
  //   measured: 9 rows 3.8 ms, 27 rows 6.9 ms    expected: 8 rows 3.4, 15 rows 4.8, 16 rows 5.0,
  //                                                        54 rows 13.8
  //
  // (A row of its class alone would say 6.3 ms for 15 rows and 4.1 for 16, so that of two devices
  // side by side the one with 15 conversations would get the next one.)
  std::optional<double> ExpectedUs(uint32_t rows) const {
    rows = std::max(rows, 1u);
    std::optional<size_t> below, above;
    for (size_t i = 0; i < rings_.size() && !above; ++i) {
      if (rings_[i].count() < kSamplesToTrust) continue;
      (mean_rows_[i] <= rows ? below : above) = i;
    }
    if (!below) {
      if (above != Class(rows)) return std::nullopt;
      return rows * *rings_[*above].Median();
    }
    if (!above) return rows * *rings_[*below].Median();
    const double from_us = PointUs(*below), to_us = PointUs(*above);
    const double share = (rows - mean_rows_[*below]) / (mean_rows_[*above] - mean_rows_[*below]);
    return from_us + share * (to_us - from_us);
  }

  // What a step of so many rows takes at most, since those of more were measured: it takes no
  // longer than the least of these. 8 to 15 rows at 0.5 ms each: five rows take 4 ms at most, even
  // if single rows of 3.6 ms are all that is known below. nullopt: none of more was measured.
  std::optional<double> AtMostUs(uint32_t rows) const {
    std::optional<double> most;
    for (size_t i = Class(std::max(rows, 1u)) + 1; i < rings_.size(); ++i) {
      if (rings_[i].count() < kSamplesToTrust) continue;
      const double us = static_cast<double>(uint64_t{1} << i) * *rings_[i].Median();
      most = std::min(us, most.value_or(us));
    }
    return most;
  }

  // How many times as long as a step of one row one of so many takes; nullopt: their class, or that
  // of one row, has not been measured often enough. 16 rows of 0.4 ms, where one takes 2.5: 2.6.
  std::optional<double> GrowthTo(uint32_t rows) const {
    const auto& own = rings_[Class(std::max(rows, 1u))];
    if (own.count() < kSamplesToTrust || rings_[0].count() < kSamplesToTrust) return std::nullopt;
    return *ExpectedUs(rows) / std::max(*rings_[0].Median(), 1e-3);
  }

  // The most rows whose step is expected to take no longer than this; nullopt: nothing has been
  // measured often enough. The largest class that has so many rows decides: with a row of 1 in
  // 1,000 us, and of 64 to 127 in 50, 5,000 us hold 100 rows. 2,000 us would hold 40: these are
  // tried, and where they take longer, their own class says so from then on.
  std::optional<uint32_t> RowsWithin(double limit_us) const {
    std::optional<uint32_t> most;
    double end = UINT32_MAX;  // rows that a larger class says are too many
    for (size_t i = rings_.size(); i-- > 0;) {
      if (rings_[i].count() < kSamplesToTrust) continue;
      const auto first = static_cast<double>(uint64_t{1} << i);
      const double rows = std::min(end, limit_us / std::max(*rings_[i].Median(), 1e-3));
      most = static_cast<uint32_t>(std::max(rows, 1.0));
      if (rows >= first) break;
      // Fewer than it was measured with: so many are tried, unless their class knows better.
      if (rings_[Class(*most)].count() < kSamplesToTrust) break;
      end = first - 1;
    }
    return most;
  }

  // The longest that a step of about so many rows has taken of late, by the same classes; nullopt
  // as above.
  std::optional<double> LongestUs(uint32_t rows) const {
    for (size_t i = Class(std::max(rows, 1u)) + 1; i-- > 0;)
      if (rings_[i].count() >= kSamplesToTrust) return rows * *rings_[i].Largest();
    return std::nullopt;
  }

 private:
  static constexpr size_t kSamples = 15, kSamplesToTrust = 3;
  static constexpr uint32_t kMostDoubts = 256;
  static size_t Class(uint32_t rows) { return static_cast<size_t>(std::bit_width(rows)) - 1; }
  double PointUs(size_t index) const { return mean_rows_[index] * *rings_[index].Median(); }

  // Frames get no longer than the classes of more rows allow, and what is never sent is never
  // measured again: three frames of 512 rows while a device compiled its kernels, 0.2 ms a row,
  // would keep frames short for as long as it stays. A row of many costs no more than one of few,
  // so where the class of 256 comes to 0.04 ms, that of 512 is in doubt, and forgotten after so
  // many steps that say so: it is tried again.
  void ForgetDoubted(size_t own) {
    if (rings_[own].count() < kSamplesToTrust) return;
    const double row_us = *rings_[own].Median();
    for (size_t i = own + 1; i < rings_.size(); ++i) {
      if (rings_[i].count() == 0 || *rings_[i].Median() <= row_us) continue;
      if (++doubts_[i] < kMostDoubts) continue;
      rings_[i].Clear();  // and with it what its rows were: Add() begins anew
      doubts_[i] = 0;
    }
  }

  std::array<Ring<kSamples>, 32> rings_{};  // us a row
  std::array<double, 32> mean_rows_{};      // of each class, of about the last kSamples
  std::array<uint32_t, 32> doubts_{};       // since the class was measured
};

}  // namespace weft::swarm
