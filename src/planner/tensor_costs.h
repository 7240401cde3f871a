// What a schedule of neuron groups costs, in time and memory.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/tensor_problem.h"

namespace weft::planner {

// Of all blocks together.
struct TensorTotals {
  explicit TensorTotals(const TensorProblem& problem);

  double group_bytes = 0, group_work = 0;
  double shared_bytes = 0, shared_work = 0;  // that every device has and does
  std::vector<double> largest_share;         // that a device's memory holds, at most 1
};

// Seconds that a device computes for so many groups of a block.
inline double BlockSeconds(const TensorBlock& block, const TensorDevice& device, uint32_t count) {
  if (count == 0) return 0;
  return (block.shared_work + count * block.work_per_group) / device.work_per_second;
}

// Bytes that `count` more groups need beside those that are there.
inline uint64_t AddedBytes(const TensorBlock& block, uint32_t present, uint32_t count) {
  if (count == 0) return 0;
  return count * block.bytes_per_group + (present == 0 ? block.shared_bytes : 0);
}

// Seconds for `bytes` on a line. 4,096 columns in f32 at 1 Gbit/s: 0.131 ms (the paper has 0.262).
double TransferSeconds(uint64_t bytes, double bytes_per_second);

// A row of each block goes to every device with a group of it and a row comes back, one device
// after the other, because all pass the hub's line; round trips overlap.
TensorTime PredictTime(const TensorProblem& problem, const TensorSchedule& schedule);

// Bytes on each device; a schedule fits if none is beyond the device's memory.
std::vector<uint64_t> UsedBytes(const TensorProblem& problem, const TensorSchedule& schedule);
bool Fits(const TensorProblem& problem, const TensorSchedule& schedule);

}  // namespace weft::planner
