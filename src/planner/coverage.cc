#include "planner/coverage.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace weft::planner {
namespace {

constexpr int kExactWorkers = 16;
constexpr int kShuffledOrders = 64;

// Lowers `best` to the gap between a covered prefix and a covered suffix, where that is smaller.
void Consider(int prefix, int suffix, const std::vector<LayerCost>& layers, double weight_factor,
              Shortfall& best) {
  best.covered_layers = std::max(best.covered_layers, prefix);
  if (prefix >= suffix) {
    best.gap_first = best.gap_end = prefix;
    best.gap_bytes = 0;
    return;
  }
  const uint64_t bytes = StageMemoryBytes(layers, weight_factor, prefix, suffix);
  if (bytes < best.gap_bytes) {
    best.gap_bytes = bytes;
    best.gap_first = prefix;
    best.gap_end = suffix;
  }
}

// In a fixed order, every worker takes as much as it can, from the front for the first k workers
// and from the back for the others, for every k.
void ConsiderOrder(const Reachability& reachability, const std::vector<int>& order,
                   const std::vector<LayerCost>& layers, double weight_factor, Shortfall& best) {
  const size_t m = order.size();
  std::vector<int> suffix(m + 1, reachability.layer_count());
  for (size_t k = m; k-- > 0;) suffix[k] = reachability.Lowest(order[k], suffix[k + 1]);
  int prefix = 0;
  Consider(prefix, suffix[0], layers, weight_factor, best);
  for (size_t k = 0; k < m; ++k) {
    prefix = reachability.Furthest(order[k], prefix);
    Consider(prefix, suffix[k + 1], layers, weight_factor, best);
  }
}

// An order whose workers, each taking as much as it can, cover as deep a prefix as any order's.
std::vector<int> DeepestOrder(const Reachability& reachability) {
  const std::vector<int> cover = PrefixCover(reachability);
  std::vector<int> order;
  for (size_t set = cover.size() - 1; set != 0;) {
    for (int worker = 0; worker < reachability.worker_count(); ++worker) {
      const size_t bit = size_t{1} << worker;
      if ((set & bit) == 0) continue;
      if (reachability.Furthest(worker, cover[set ^ bit]) != cover[set]) continue;
      order.push_back(worker);
      set ^= bit;
      break;
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

Reachability::Reachability(const StageTable& table, double init_cap)
    : layer_count_(table.layer_count), worker_count_(table.worker_count) {
  const size_t stride = static_cast<size_t>(layer_count_) + 1;
  furthest_.resize(static_cast<size_t>(worker_count_) * stride);
  lowest_.resize(furthest_.size());
  for (int worker = 0; worker < worker_count_; ++worker) {
    for (int layer = 0; layer <= layer_count_; ++layer) lowest_[At(worker, layer)] = layer;
    for (int first = layer_count_; first >= 0; --first) {
      // init never falls with `end`: a binary search finds the last end under the cap.
      const auto row = table.init.begin() + static_cast<std::ptrdiff_t>(table.At(worker, 0, 0)) +
                       static_cast<std::ptrdiff_t>(first) * (layer_count_ + 1);
      const auto end =
          std::upper_bound(row + first + 1, row + table.Reach(worker, first) + 1, init_cap);
      const int furthest = static_cast<int>(end - row) - 1;
      furthest_[At(worker, first)] = furthest;
      // The starts that reach a given end are contiguous, and we visit them downwards.
      for (int reached = first + 1; reached <= furthest; ++reached) {
        lowest_[At(worker, reached)] = first;
      }
    }
  }
}

std::vector<int> PrefixCover(const Reachability& reachability) {
  CHECK(reachability.worker_count() <= 24);
  std::vector<int> cover(size_t{1} << reachability.worker_count(), 0);
  for (size_t set = 1; set < cover.size(); ++set) {
    for (int worker = 0; worker < reachability.worker_count(); ++worker) {
      const size_t bit = size_t{1} << worker;
      if ((set & bit) == 0) continue;
      cover[set] = std::max(cover[set], reachability.Furthest(worker, cover[set ^ bit]));
    }
  }
  return cover;
}

std::vector<int> SuffixCover(const Reachability& reachability) {
  CHECK(reachability.worker_count() <= 24);
  std::vector<int> cover(size_t{1} << reachability.worker_count(), reachability.layer_count());
  for (size_t set = 1; set < cover.size(); ++set) {
    for (int worker = 0; worker < reachability.worker_count(); ++worker) {
      const size_t bit = size_t{1} << worker;
      if ((set & bit) == 0) continue;
      cover[set] = std::min(cover[set], reachability.Lowest(worker, cover[set ^ bit]));
    }
  }
  return cover;
}

void Shuffle(std::vector<int>& order, SeededRandom& random) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
}

std::vector<std::vector<int>> SampleOrders(const StageTable& table) {
  std::vector<int> order(static_cast<size_t>(table.worker_count));
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> strength(order.size(), 0);
  for (const int worker : order) {
    for (int first = 0; first < table.layer_count; ++first) {
      strength[static_cast<size_t>(worker)] += table.Reach(worker, first) - first;
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return strength[static_cast<size_t>(a)] > strength[static_cast<size_t>(b)];
  });
  std::vector<std::vector<int>> orders{order};
  std::reverse(order.begin(), order.end());
  orders.push_back(order);
  if (table.worker_count <= kExactWorkers) orders.push_back(DeepestOrder(Reachability(table)));
  SeededRandom random(1);
  for (int i = 0; i < kShuffledOrders; ++i) {
    Shuffle(order, random);
    orders.push_back(order);
  }
  return orders;
}

Shortfall FindShortfall(const StageTable& table, const std::vector<LayerCost>& layers,
                        double weight_factor) {
  const Reachability reachability(table);
  const int n = table.layer_count;
  Shortfall best;
  best.gap_end = n;
  best.gap_bytes = StageMemoryBytes(layers, weight_factor, 0, n);
  if (table.worker_count <= kExactWorkers) {
    const std::vector<int> prefix = PrefixCover(reachability);
    const std::vector<int> suffix = SuffixCover(reachability);
    const size_t all = prefix.size() - 1;
    for (size_t set = 0; set <= all; ++set) {
      Consider(prefix[set], suffix[all ^ set], layers, weight_factor, best);
    }
    return best;
  }
  for (const std::vector<int>& order : SampleOrders(table)) {
    ConsiderOrder(reachability, order, layers, weight_factor, best);
  }
  return best;
}

}  // namespace weft::planner
