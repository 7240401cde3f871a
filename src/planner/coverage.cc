#include "planner/coverage.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace weft::planner {
namespace {

constexpr int kExactWorkers = 16;
constexpr int kShuffledOrders = 64;

// What a gap is measured with.
struct Gaps {
  const std::vector<LayerCost>& layers;
  const std::vector<int>& cuts;
  double weight_factor;
};

// Lowers `best` to the gap between a covered prefix and a covered suffix, where that is smaller.
void Consider(int prefix_place, int suffix_place, const Gaps& gaps, Shortfall& best) {
  const int prefix = gaps.cuts[static_cast<size_t>(prefix_place)];
  const int suffix = gaps.cuts[static_cast<size_t>(suffix_place)];
  best.covered_layers = std::max(best.covered_layers, prefix);
  if (prefix >= suffix) {
    best.gap_first = best.gap_end = prefix;
    best.gap_bytes = 0;
    return;
  }
  const uint64_t bytes = StageMemoryBytes(gaps.layers, gaps.weight_factor, prefix, suffix);
  if (bytes < best.gap_bytes) {
    best.gap_bytes = bytes;
    best.gap_first = prefix;
    best.gap_end = suffix;
  }
}

// In a fixed order, every worker takes as much as it can, from the front for the first k workers
// and from the back for the others, for every k.
void ConsiderOrder(const Reachability& reachability, const std::vector<int>& order,
                   const Gaps& gaps, Shortfall& best) {
  const size_t m = order.size();
  std::vector<int> suffix(m + 1, reachability.layer_count());
  for (size_t k = m; k-- > 0;) suffix[k] = reachability.Lowest(order[k], suffix[k + 1]);
  int prefix = 0;
  Consider(prefix, suffix[0], gaps, best);
  for (size_t k = 0; k < m; ++k) {
    prefix = reachability.Furthest(order[k], prefix);
    Consider(prefix, suffix[k + 1], gaps, best);
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
  furthest_ = table.reach;
  for (int worker = 0; worker < worker_count_; ++worker) {
    for (int first = 0; first < layer_count_; ++first) {
      const auto row = table.init.begin() + static_cast<std::ptrdiff_t>(table.At(worker, first, 0));
      const int reach = table.Reach(worker, first);
      if (reach == first || row[reach] <= init_cap) continue;
      // `init` never falls with `end`: a binary search finds the last end under the cap.
      const auto end = std::upper_bound(row + first + 1, row + reach, init_cap);
      furthest_[At(worker, first)] = static_cast<int>(end - row) - 1;
    }
  }
  FindLowest();
}

Reachability::Reachability(const CostModel& model, const std::vector<int>& workers)
    : layer_count_(model.layer_count()), worker_count_(static_cast<int>(workers.size())) {
  furthest_.resize(workers.size() * (static_cast<size_t>(layer_count_) + 1));
  for (int row = 0; row < worker_count_; ++row) {
    const int worker = workers[static_cast<size_t>(row)];
    int end = 0;
    for (int start = 0; start <= layer_count_; ++start) {
      end = std::max(end, start);
      while (end < layer_count_ && model.Allowed(worker, start, end + 1)) ++end;
      furthest_[At(row, start)] = end;
    }
  }
  FindLowest();
}

Reachability::Reachability(int layer_count, std::vector<int> furthest)
    : layer_count_(layer_count),
      worker_count_(static_cast<int>(furthest.size()) / (layer_count + 1)),
      furthest_(std::move(furthest)) {
  FindLowest();
}

// Shortening keeps a stage allowed: neither end of the longest stage ever moves back.
void Reachability::FindLowest() {
  lowest_.resize(furthest_.size());
  for (int worker = 0; worker < worker_count_; ++worker) {
    int first = 0;
    for (int last = 0; last <= layer_count_; ++last) {
      while (first < last && Furthest(worker, first) < last) ++first;
      lowest_[At(worker, last)] = first;
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

namespace {

// Depth first, with what cannot work cut off early.
class CoverSearch {
 public:
  CoverSearch(const Reachability& reachability, uint64_t most_work)
      : reach_(reachability),
        most_work_(most_work),
        n_(reachability.layer_count()),
        m_(reachability.worker_count()),
        used_(static_cast<size_t>(m_), false),
        holders_(static_cast<size_t>(n_), 0) {
    for (int worker = 0; worker < m_; ++worker) {
      Ability ability;
      for (int layer = 0; layer < n_; ++layer) {
        const int length = reach_.Furthest(worker, layer) - layer;
        ability.longest = std::max(ability.longest, length);
        ability.sum += length;
        holders_[Index(layer)] += length > 0;
      }
      capacity_ += ability.longest;
      abilities_.push_back(ability);
    }
  }

  std::vector<int> Run() {
    const bool all_held =
        std::all_of(holders_.begin(), holders_.end(), [](int h) { return h > 0; });
    return all_held && Extend(0) ? order_ : std::vector<int>();
  }

 private:
  struct Ability {
    int longest = 0;  // layers of its longest stage
    int64_t sum = 0;  // of its longest stages from every layer: how capable it is anywhere
  };
  struct Choice {
    int worker = 0;
    double fit = 0;  // layers that it would take, of the most that it ever can
  };
  static size_t Index(int i) { return static_cast<size_t>(i); }

  // Workers that could go on at `first`: those first that waste least of what they can hold, among
  // equals the least capable, so that the capable ones are left for what only they can hold.
  std::vector<Choice> Choices(int first) const {
    std::vector<Choice> choices;
    for (int worker = 0; worker < m_; ++worker) {
      const int length = reach_.Furthest(worker, first) - first;
      if (used_[Index(worker)] || length == 0) continue;
      choices.push_back({worker, static_cast<double>(length) / abilities_[Index(worker)].longest});
    }
    std::stable_sort(choices.begin(), choices.end(), [this](const Choice& a, const Choice& b) {
      if (a.fit != b.fit) return a.fit > b.fit;
      return abilities_[Index(a.worker)].sum < abilities_[Index(b.worker)].sum;
    });
    return choices;
  }

  bool AreTwins(int a, int b) const {
    for (int layer = 0; layer < n_; ++layer)
      if (reach_.Furthest(a, layer) != reach_.Furthest(b, layer)) return false;
    return true;
  }

  // A used worker is no holder any more. Returns whether every layer from `end` keeps one.
  bool Take(int worker, int end, int sign) {
    bool all_held = true;
    for (int layer = end; layer < n_; ++layer) {
      if (reach_.Furthest(worker, layer) == layer) continue;
      holders_[Index(layer)] -= sign;
      all_held = all_held && holders_[Index(layer)] > 0;
    }
    capacity_ -= sign * abilities_[Index(worker)].longest;
    used_[Index(worker)] = sign > 0;
    return all_held;
  }

  bool Extend(int first) {
    if (first == n_) return true;
    if (capacity_ < n_ - first) return false;
    int last_failed = kNoWorker;
    for (const Choice& choice : Choices(first)) {
      const int worker = choice.worker;
      if (last_failed != kNoWorker && AreTwins(last_failed, worker)) continue;
      work_ += static_cast<uint64_t>(m_ + n_);
      if (work_ > most_work_) return false;
      const int end = reach_.Furthest(worker, first);
      order_.push_back(worker);
      if (Take(worker, end, 1) && Extend(end)) return true;
      Take(worker, end, -1);
      order_.pop_back();
      last_failed = worker;
    }
    return false;
  }

  const Reachability& reach_;
  const uint64_t most_work_;
  const int n_, m_;
  std::vector<Ability> abilities_;
  std::vector<bool> used_;
  std::vector<int> holders_;  // unused workers that can hold the layer
  int64_t capacity_ = 0;      // the longest stages of unused workers together
  std::vector<int> order_;
  uint64_t work_ = 0;
};

}  // namespace

std::vector<int> FindCover(const Reachability& reachability, uint64_t work) {
  return CoverSearch(reachability, work).Run();
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
  if (table.worker_count <= kExactWorkers) {
    orders.push_back(DeepestOrder(Reachability(table)));
  } else if (std::vector<int> cover = FindCover(Reachability(table)); !cover.empty()) {
    for (const int worker : orders[0])
      if (std::find(cover.begin(), cover.end(), worker) == cover.end()) cover.push_back(worker);
    orders.push_back(std::move(cover));
  }
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
  const Gaps gaps{layers, table.cuts, weight_factor};
  const int n = static_cast<int>(layers.size());
  Shortfall best;
  best.gap_end = n;
  best.gap_bytes = StageMemoryBytes(layers, weight_factor, 0, n);
  if (table.worker_count <= kExactWorkers) {
    const std::vector<int> prefix = PrefixCover(reachability);
    const std::vector<int> suffix = SuffixCover(reachability);
    const size_t all = prefix.size() - 1;
    for (size_t set = 0; set <= all; ++set) {
      Consider(prefix[set], suffix[all ^ set], gaps, best);
    }
    return best;
  }
  for (const std::vector<int>& order : SampleOrders(table)) {
    ConsiderOrder(reachability, order, gaps, best);
  }
  return best;
}

}  // namespace weft::planner
