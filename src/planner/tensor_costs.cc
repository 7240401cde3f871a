#include "planner/tensor_costs.h"

#include <algorithm>
#include <cstddef>

namespace weft::planner {

TensorTotals::TensorTotals(const TensorProblem& problem) {
  for (const TensorBlock& block : problem.blocks) {
    group_bytes += static_cast<double>(block.bytes_per_group) * block.groups;
    group_work += block.work_per_group * block.groups;
    shared_bytes += static_cast<double>(block.shared_bytes);
    shared_work += block.shared_work;
  }
  for (const TensorDevice& device : problem.devices) {
    const double room = static_cast<double>(device.memory_bytes) - shared_bytes;
    largest_share.push_back(std::clamp(room / group_bytes, 0.0, 1.0));
  }
}

double TransferSeconds(uint64_t bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0;
}

TensorTime PredictTime(const TensorProblem& problem, const TensorSchedule& schedule) {
  TensorTime time;
  for (size_t b = 0; b < problem.blocks.size(); ++b) {
    double slowest_s = 0, round_trip_s = 0;
    for (size_t i = 0; i < problem.devices.size(); ++i) {
      const TensorDevice& device = problem.devices[i];
      if (schedule.counts[b][i] == 0) continue;
      slowest_s =
          std::max(slowest_s, BlockSeconds(problem.blocks[b], device, schedule.counts[b][i]));
      if (i == problem.hub) continue;
      time.exchange_s += 2 * TransferSeconds(problem.row_bytes, device.bytes_per_second);
      round_trip_s = std::max(round_trip_s, device.round_trip_s);
    }
    time.compute_s += slowest_s;
    time.exchange_s += round_trip_s;
  }
  return time;
}

std::vector<uint64_t> UsedBytes(const TensorProblem& problem, const TensorSchedule& schedule) {
  std::vector<uint64_t> used(problem.devices.size(), 0);
  for (size_t b = 0; b < problem.blocks.size(); ++b) {
    for (size_t i = 0; i < used.size(); ++i) {
      used[i] += AddedBytes(problem.blocks[b], 0, schedule.counts[b][i]);
    }
  }
  return used;
}

bool Fits(const TensorProblem& problem, const TensorSchedule& schedule) {
  const std::vector<uint64_t> used = UsedBytes(problem, schedule);
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] > problem.devices[i].memory_bytes) return false;
  }
  return true;
}

}  // namespace weft::planner
