// How many neuron groups of every block each device computes, when all devices compute every layer
// together (halo-lossy-networks III). Numbers in, a schedule out; no clock, no network.
//
//      block        groups, most critical first      a device computes `counts` of them
//      attention 1  [h h h h h h h h]                A: 3    B: 3    C: 2
//      MLP 1        [g g g g g g g g g g g]          A: 4    B: 4    C: 3
//      ...                                           which ones: the ranks of algorithm 3
//      output head  [v v v v v v v v]
//
// The time of a token (equation 1) is the sum over the blocks of the slowest device's time, and of
// what the devices send to the hub and back. Which choices are ours where the paper is silent:
// docs/decisions/0015-neuron-groups.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "planner/tensor_problem.h"

namespace weft::planner {

// Shares of every block, one a device, that sum up to 1. kOutOfMemory: the devices together have
// too little memory.
Result<std::vector<double>> ComputationGreedyShares(const TensorProblem& problem);  // algorithm 1
Result<std::vector<double>> MinMaxShares(const TensorProblem& problem,
                                         double epsilon = 1e-3);  // algorithm 2
// The baseline: by speed, then what is beyond a device's memory goes to the others in proportion to
// what they have free.
Result<std::vector<double>> GalaxyShares(const TensorProblem& problem);

// Whole groups of these shares: the largest remainders are rounded up, and no device gets a group
// that it has no room for. kOutOfMemory: groups are left that fit nowhere; never so if the devices
// with a share have room for the model, the shared bytes and one more group each.
Result<TensorSchedule> WholeGroups(const TensorProblem& problem, std::span<const double> shares);

// Algorithm 2 in whole groups, improved group by group, over those of the fastest 1, 2, ... devices
// (and the hub) that are predicted to be fastest together, exchanges included. kOutOfMemory: not
// even all devices together have room.
Result<TensorSchedule> MinMaxSchedule(const TensorProblem& problem);

// Ranks [first, first + count) of a block's groups, the most critical one has rank 0.
struct RankRange {
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const RankRange&) const = default;
};

// Algorithm 3: devices take the groups of a block in order of their loss, so that the one that
// loses most has the least critical ones; equal losses: in the devices' order.
std::vector<RankRange> PriorityRanks(std::span<const uint32_t> counts,
                                     std::span<const TensorDevice> devices);

}  // namespace weft::planner
