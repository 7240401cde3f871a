#include "planner/tensor_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "planner/tensor_costs.h"
#include "planner/tensor_improve.h"

namespace weft::planner {
namespace {

// Of the subsets of the devices that MinMaxSchedule looks at, those that it improves.
constexpr size_t kImprovedCandidates = 2;

// Indices by falling `key`; equal ones keep their order.
template <typename Key>
std::vector<size_t> ByFalling(size_t count, const Key& key) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  return order;
}

Error TooLittleMemory(const TensorTotals& totals) {
  double room = 0;
  for (const double share : totals.largest_share) room += share;
  return Error(ErrorCode::kOutOfMemory,
               "The devices have memory for " + std::to_string(static_cast<int>(100 * room)) +
                   "% of the model's neuron groups beside the keys and values that each of them "
                   "keeps; offer more memory or a shorter context.");
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<double> Normalized(std::vector<double> shares) {
  const double sum = Sum(shares);
  for (double& share : shares) share /= sum;
  return shares;
}

// What each device takes of every block within `threshold_s` a token: u_i = min(m_i, T c_i), less
// the time for what it does whole.
std::vector<double> SharesWithin(const TensorProblem& problem, const TensorTotals& totals,
                                 double threshold_s) {
  std::vector<double> shares;
  for (size_t i = 0; i < problem.devices.size(); ++i) {
    const double work = threshold_s * problem.devices[i].work_per_second - totals.shared_work;
    shares.push_back(std::clamp(work / totals.group_work, 0.0, totals.largest_share[i]));
  }
  return shares;
}

}  // namespace

std::vector<TensorBlock> TensorBlocks(const TensorModel& model) {
  const auto bytes = [&](double weights) {
    return static_cast<uint64_t>(std::ceil(weights * model.bytes_per_weight));
  };
  const auto groups = [&](uint32_t columns) {
    return (columns + model.group_columns - 1) / model.group_columns;
  };
  const double head_weights = 2.0 * model.columns * model.head_columns;  // q and o
  const double kv_columns = 2.0 * model.kv_heads * model.head_columns;
  const double mlp_weights = 3.0 * model.columns * model.group_columns;
  const double vocabulary_weights = 1.0 * model.columns * model.group_columns;
  TensorBlock attention{.kind = GroupKind::kHead, .groups = model.heads};
  attention.bytes_per_group = bytes(head_weights);
  // Scores and values over all positions that are kept: the worst row of a conversation.
  attention.work_per_group = head_weights + 2.0 * model.positions * model.head_columns;
  attention.shared_bytes =
      bytes(kv_columns * model.columns) +
      static_cast<uint64_t>(std::ceil(kv_columns * model.positions * model.bytes_per_kv_value));
  attention.shared_work = kv_columns * model.columns;
  std::vector<TensorBlock> blocks;
  for (uint32_t layer = 1; layer <= model.layers; ++layer) {
    attention.layer = layer;
    blocks.push_back(attention);
    blocks.push_back(
        {layer, GroupKind::kMlp, groups(model.mlp_columns), bytes(mlp_weights), mlp_weights, 0, 0});
  }
  blocks.push_back({model.layers + 1, GroupKind::kVocabulary, groups(model.vocabulary),
                    bytes(vocabulary_weights), vocabulary_weights, 0, 0});
  return blocks;
}

Result<std::vector<double>> ComputationGreedyShares(const TensorProblem& problem) {
  const TensorTotals totals(problem);
  std::vector<double> shares(problem.devices.size(), 0);
  double left = 1;
  for (const size_t i :
       ByFalling(shares.size(), [&](size_t i) { return problem.devices[i].work_per_second; })) {
    shares[i] = std::min(left, totals.largest_share[i]);
    left -= shares[i];
  }
  if (left > 1e-12) return TooLittleMemory(totals);
  return Normalized(std::move(shares));
}

Result<std::vector<double>> MinMaxShares(const TensorProblem& problem, double epsilon) {
  const TensorTotals totals(problem);
  if (Sum(totals.largest_share) < 1 - 1e-12) return TooLittleMemory(totals);
  double slowest = problem.devices[0].work_per_second;
  for (const TensorDevice& device : problem.devices)
    slowest = std::min(slowest, device.work_per_second);
  // Within `high_s` every device does as much as it has memory for.
  double low_s = 0;
  double high_s = (totals.shared_work + totals.group_work) / slowest;
  while (high_s - low_s > epsilon * high_s) {
    const double middle_s = (low_s + high_s) / 2;
    if (Sum(SharesWithin(problem, totals, middle_s)) >= 1) {
      high_s = middle_s;
    } else {
      low_s = middle_s;
    }
  }
  return Normalized(SharesWithin(problem, totals, high_s));
}

Result<std::vector<double>> GalaxyShares(const TensorProblem& problem) {
  const TensorTotals totals(problem);
  if (Sum(totals.largest_share) < 1 - 1e-12) return TooLittleMemory(totals);
  std::vector<double> shares;
  for (const TensorDevice& device : problem.devices) shares.push_back(device.work_per_second);
  shares = Normalized(std::move(shares));
  double beyond = 0, free = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    beyond += std::max(0.0, shares[i] - totals.largest_share[i]);
    free += std::max(0.0, totals.largest_share[i] - shares[i]);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    const double room = totals.largest_share[i] - shares[i];
    shares[i] += room < 0 ? room : (free > 0 ? room * beyond / free : 0);
  }
  return Normalized(std::move(shares));
}

namespace {

// Places the groups of blocks, keeping account of memory.
class Placement {
 public:
  Placement(const TensorProblem& problem, std::span<const double> shares) : shares_(shares) {
    double shared_bytes = 0;
    for (const TensorBlock& block : problem.blocks)
      shared_bytes += static_cast<double>(block.shared_bytes);
    // A device with a share is counted as having everything shared from the beginning, so that a
    // block placed early cannot take the room.
    for (size_t i = 0; i < shares.size(); ++i)
      room_.push_back(
          shares[i] > 0 ? static_cast<double>(problem.devices[i].memory_bytes) - shared_bytes : 0);
  }

  // The counts of a block, or nothing if some of its groups fit nowhere.
  std::optional<std::vector<uint32_t>> Place(const TensorBlock& block) {
    std::vector<uint32_t> counts(shares_.size(), 0);
    uint32_t left = block.groups;
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto ideal = static_cast<uint32_t>(shares_[i] * block.groups + 1e-9);
      while (counts[i] < ideal && left > 0 && Take(block, i)) {
        ++counts[i];
        --left;
      }
    }
    while (left > 0) {
      const std::optional<size_t> device = LargestRemainder(block, counts);
      if (!device) return std::nullopt;
      Take(block, *device);
      ++counts[*device];
      --left;
    }
    return counts;
  }

 private:
  bool HasRoom(const TensorBlock& block, size_t device) const {
    return shares_[device] > 0 && room_[device] >= static_cast<double>(block.bytes_per_group);
  }
  bool Take(const TensorBlock& block, size_t device) {
    if (!HasRoom(block, device)) return false;
    room_[device] -= static_cast<double>(block.bytes_per_group);
    return true;
  }
  // The device with room whose count is furthest below its share; of equal ones the one with the
  // larger share, then the first.
  std::optional<size_t> LargestRemainder(const TensorBlock& block,
                                         const std::vector<uint32_t>& counts) const {
    std::optional<size_t> best;
    std::pair<double, double> best_key;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (!HasRoom(block, i)) continue;
      const double remainder = shares_[i] * block.groups - counts[i];
      const std::pair key(std::round(remainder * 1e9), shares_[i]);
      if (best && key <= best_key) continue;
      best = i;
      best_key = key;
    }
    return best;
  }

  std::span<const double> shares_;
  std::vector<double> room_;
};

}  // namespace

Result<TensorSchedule> WholeGroups(const TensorProblem& problem, std::span<const double> shares) {
  TensorSchedule schedule;
  schedule.counts.resize(problem.blocks.size());
  Placement placement(problem, shares);
  // Large groups first: small ones fit into what is left.
  for (const size_t b : ByFalling(problem.blocks.size(),
                                  [&](size_t b) { return problem.blocks[b].bytes_per_group; })) {
    std::optional<std::vector<uint32_t>> counts = placement.Place(problem.blocks[b]);
    if (!counts)
      return Error(ErrorCode::kOutOfMemory,
                   "The devices together have memory for the model, but no device has room for "
                   "another whole neuron group of " +
                       std::to_string(problem.blocks[b].bytes_per_group) + " bytes in layer " +
                       std::to_string(problem.blocks[b].layer) +
                       "; offer more memory or use smaller groups.");
    schedule.counts[b] = std::move(*counts);
  }
  return schedule;
}

std::vector<RankRange> PriorityRanks(std::span<const uint32_t> counts,
                                     std::span<const TensorDevice> devices) {
  std::vector<RankRange> ranks(counts.size());
  uint32_t next = 0;
  for (const size_t i : ByFalling(counts.size(), [&](size_t i) { return -devices[i].loss_rate; })) {
    ranks[i] = {next, counts[i]};
    next += counts[i];
  }
  return ranks;
}

namespace {

struct Candidate {
  std::vector<double> shares;
  TensorSchedule schedule;
  double expected_s = 0;
};

// Computing as fast as these shares are, were groups divisible, and what the exchanges of the
// rounded schedule take.
double ExpectedSeconds(const TensorProblem& problem, const Candidate& candidate) {
  const TensorTotals totals(problem);
  double slowest_s = 0;
  for (size_t i = 0; i < candidate.shares.size(); ++i) {
    if (candidate.shares[i] == 0) continue;
    slowest_s = std::max(slowest_s, (totals.shared_work + candidate.shares[i] * totals.group_work) /
                                        problem.devices[i].work_per_second);
  }
  return slowest_s + PredictTime(problem, candidate.schedule).exchange_s;
}

Result<Candidate> RoundedMinMax(const TensorProblem& problem) {
  Candidate candidate;
  ASSIGN_OR_RETURN(candidate.shares, MinMaxShares(problem));
  ASSIGN_OR_RETURN(candidate.schedule, WholeGroups(problem, candidate.shares));
  candidate.expected_s = ExpectedSeconds(problem, candidate);
  return candidate;
}

}  // namespace

Result<TensorSchedule> MinMaxSchedule(const TensorProblem& problem) {
  const std::vector<size_t> order = ByFalling(
      problem.devices.size(), [&](size_t i) { return problem.devices[i].work_per_second; });
  ASSIGN_OR_RETURN(Candidate all, RoundedMinMax(problem));
  std::vector<Candidate> candidates{std::move(all)};
  // Without the slowest, then without the two slowest, ...: those left out have no memory.
  TensorProblem some = problem;
  for (size_t i = order.size() - 1; i > 0; --i) {
    if (order[i] == problem.hub) continue;
    some.devices[order[i]].memory_bytes = 0;
    Result<Candidate> candidate = RoundedMinMax(some);
    if (!candidate.ok()) break;
    candidates.push_back(std::move(*candidate));
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.expected_s < b.expected_s; });
  if (candidates.size() > kImprovedCandidates) candidates.resize(kImprovedCandidates);
  const TensorSchedule* best = nullptr;
  double best_s = 0;
  for (Candidate& candidate : candidates) {
    for (size_t i = 0; i < candidate.shares.size(); ++i)
      some.devices[i].memory_bytes = candidate.shares[i] > 0 ? problem.devices[i].memory_bytes : 0;
    ImproveByGroups(some, &candidate.schedule);
    const double total_s = PredictTime(problem, candidate.schedule).total_s();
    if (best != nullptr && total_s >= best_s) continue;
    best_s = total_s;
    best = &candidate.schedule;
  }
  return *best;
}

}  // namespace weft::planner
