// Shares say nothing of rounding: with 8 heads over 8 devices one head too many on a slow device
// doubles a block's time.
#include "planner/tensor_improve.h"

#include <algorithm>
#include <cstddef>

#include "planner/tensor_costs.h"

namespace weft::planner {
namespace {

constexpr double kLeastGain = 1e-9;  // of a block's seconds
constexpr int kMostSweeps = 64;      // measured: 3 to 9 are made

class GroupMoves {
 public:
  GroupMoves(const TensorProblem& problem, TensorSchedule* schedule)
      : problem_(problem), counts_(schedule->counts) {
    const std::vector<uint64_t> used = UsedBytes(problem, *schedule);
    for (size_t i = 0; i < used.size(); ++i)
      room_.push_back(static_cast<int64_t>(problem.devices[i].memory_bytes) -
                      static_cast<int64_t>(used[i]));
    for (size_t b = 0; b < counts_.size(); ++b) seconds_.push_back(Slowest(b));
  }

  void Improve() {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      bool is_better = false;
      for (size_t b = 0; b < counts_.size(); ++b) {
        while (MoveOne(b)) is_better = true;
        if (ExchangeOne(b)) is_better = true;
      }
      if (!is_better) return;
    }
  }

 private:
  size_t Devices() const { return room_.size(); }
  double Seconds(size_t b, size_t i, uint32_t count) const {
    return BlockSeconds(problem_.blocks[b], problem_.devices[i], count);
  }
  size_t SlowestDevice(size_t b) const {
    size_t slowest = 0;
    for (size_t i = 1; i < Devices(); ++i) {
      if (Seconds(b, i, counts_[b][i]) > Seconds(b, slowest, counts_[b][slowest])) slowest = i;
    }
    return slowest;
  }
  double Slowest(size_t b) const {
    const size_t i = SlowestDevice(b);
    return Seconds(b, i, counts_[b][i]);
  }
  // Seconds of a block if a group went from one device to another.
  double SecondsAfter(size_t b, size_t from, size_t to) const {
    double slowest = 0;
    for (size_t i = 0; i < Devices(); ++i) {
      const uint32_t count = counts_[b][i] + (i == to ? 1 : 0) - (i == from ? 1 : 0);
      slowest = std::max(slowest, Seconds(b, i, count));
    }
    return slowest;
  }
  int64_t Added(size_t b, size_t i) const {
    return static_cast<int64_t>(AddedBytes(problem_.blocks[b], counts_[b][i], 1));
  }
  int64_t Freed(size_t b, size_t i) const {
    return static_cast<int64_t>(AddedBytes(problem_.blocks[b], counts_[b][i] - 1, 1));
  }
  void Move(size_t b, size_t from, size_t to) {
    room_[from] += Freed(b, from);
    room_[to] -= Added(b, to);
    --counts_[b][from];
    ++counts_[b][to];
    seconds_[b] = Slowest(b);
  }

  // From the slowest device to where it ends first, if that is earlier. When several devices are as
  // slow, each step leaves one less of them.
  bool MoveOne(size_t b) {
    const size_t from = SlowestDevice(b);
    size_t best = from;
    double best_s = seconds_[b] * (1 - kLeastGain);
    for (size_t i = 0; i < Devices(); ++i) {
      if (i == from || room_[i] < Added(b, i)) continue;
      const double after_s = Seconds(b, i, counts_[b][i] + 1);
      if (after_s >= best_s) continue;
      best = i;
      best_s = after_s;
    }
    if (best == from) return false;
    Move(b, from, best);
    return true;
  }

  // A group of `b` from its slowest device to one that is full, which gives a group of another
  // block away.
  bool ExchangeOne(size_t b) {
    const size_t from = SlowestDevice(b);
    for (size_t to = 0; to < Devices(); ++to) {
      if (to == from) continue;
      const double gain_s = seconds_[b] - SecondsAfter(b, from, to);
      if (gain_s > kLeastGain * seconds_[b] && MakeRoom(b, from, to, gain_s)) return true;
    }
    return false;
  }

  bool MakeRoom(size_t b, size_t from, size_t to, double gain_s) {
    const int64_t missing = Added(b, to) - room_[to];
    for (size_t other = 0; other < counts_.size(); ++other) {
      if (other == b || counts_[other][to] == 0 || Freed(other, to) < missing) continue;
      for (size_t taker = 0; taker < Devices(); ++taker) {
        const int64_t room = room_[taker] + (taker == from ? Freed(b, from) : 0);
        if (taker == to || room < Added(other, taker)) continue;
        // The taker alone says no in most cases, and cheaply.
        const double most_s = seconds_[other] + gain_s - kLeastGain * seconds_[b];
        if (Seconds(other, taker, counts_[other][taker] + 1) > most_s) continue;
        if (SecondsAfter(other, to, taker) > most_s) continue;
        Move(b, from, to);
        Move(other, to, taker);
        return true;
      }
    }
    return false;
  }

  const TensorProblem& problem_;
  std::vector<std::vector<uint32_t>>& counts_;
  std::vector<int64_t> room_;    // bytes, by device; below 0 only inside of an exchange
  std::vector<double> seconds_;  // by block
};

}  // namespace

void ImproveByGroups(const TensorProblem& problem, TensorSchedule* schedule) {
  GroupMoves(problem, schedule).Improve();
}

}  // namespace weft::planner
