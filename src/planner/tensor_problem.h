// Neuron groups to divide over devices, the devices, and a division (tensor_schedule.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::planner {

enum class GroupKind : uint32_t {
  kHead = 0,        // a query head with its columns of the output projection
  kMlp = 1,         // neighbouring columns of an MLP: gate, up and down together
  kVocabulary = 2,  // a range of the output head's rows
};

// What is computed between two exchanges. All groups of a block count as equal.
struct TensorBlock {
  uint32_t layer = 0;
  GroupKind kind = GroupKind::kMlp;
  uint32_t groups = 0;
  uint64_t bytes_per_group = 0;
  double work_per_group = 0;  // multiply-adds for a row
  // What every device with a group of it has and does whole: the key and value projections, and
  // memory for the keys and values of all heads, so that it may be given any head at run time.
  uint64_t shared_bytes = 0;
  double shared_work = 0;
};

struct TensorDevice {
  uint64_t memory_bytes = 0;
  double work_per_second = 0;   // multiply-adds; more than 0
  double loss_rate = 0;         // of what it sends, 0 to 1
  double round_trip_s = 0;      // to the hub
  double bytes_per_second = 0;  // of its line to the hub; 0: not limited
};

struct TensorProblem {
  std::vector<TensorBlock> blocks;
  std::vector<TensorDevice> devices;
  size_t hub = 0;          // the device that merges; what it computes is not sent
  uint64_t row_bytes = 0;  // that a device receives and sends back for a block
};

// The shape of a dense model, for TensorBlocks.
struct TensorModel {
  uint32_t layers = 0;
  uint32_t columns = 0;  // of the residual stream
  uint32_t heads = 0, kv_heads = 0, head_columns = 0;
  uint32_t mlp_columns = 0;
  uint32_t vocabulary = 0;
  uint32_t group_columns = 256;  // of an MLP's groups and rows of the output head's
  double bytes_per_weight = 0;
  double bytes_per_kv_value = 0;
  uint32_t positions = 0;  // that keys and values are kept for
};

// Attention and MLP of every layer, then the output head. The last group of a block counts as full.
std::vector<TensorBlock> TensorBlocks(const TensorModel& model);

struct TensorSchedule {
  // [block][device]: groups; a block's counts sum up to its groups.
  std::vector<std::vector<uint32_t>> counts;
};

struct TensorTime {
  double compute_s = 0;   // the first term of equation 1
  double exchange_s = 0;  // the second
  double total_s() const { return compute_s + exchange_s; }
};

}  // namespace weft::planner
