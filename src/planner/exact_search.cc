// The dynamic program of exact_search.h, one pass per cap on init that cap_search.h asks for.
//
// A set of workers is a number, bit w = worker w; best[S][i] is the least sum with which exactly
// the workers of S can hold layers [0, i), in whatever order. Sets are expanded by rising number:
// to extend S by w sets a bit that S lacks, so S | w is a larger number, and when its turn comes
// all ways into it have been tried. Example with three layers and two workers whose stages cost 10
// and 11 for one layer, 15 and 13 for two; neither can hold all three:
//
//   S = {}      i=0: 0
//   S = {A}     i=1: 10    i=2: 15                from {} by A
//   S = {B}     i=1: 11    i=2: 13                from {} by B
//   S = {A, B}  i=3: min(best[A][1] + B[1,3) = 10 + 13, best[A][2] + B[2,3) = 15 + 11,
//                        best[B][1] + A[1,3) = 11 + 15, best[B][2] + A[2,3) = 13 + 10) = 23
//
// Nothing records which choice won: Backtrack finds it again, because the sum of the winner is the
// entry to the last bit.
#include "planner/exact_search.h"

#include <algorithm>

#include "base/check.h"
#include "planner/cap_search.h"
#include "planner/coverage.h"

namespace weft::planner {
namespace {

class ExactSearch {
 public:
  explicit ExactSearch(const StageTable& table)
      : table_(table),
        n_(table.layer_count),
        m_(table.worker_count),
        stride_(static_cast<size_t>(n_) + 1),
        full_((size_t{1} << m_) - 1) {
    CHECK(m_ <= 16 && n_ >= 1);
    FindTwins();
  }

  std::optional<Assignment> Run();
  const ExactSearchStats& stats() const { return stats_; }

 private:
  double* Row(size_t set) { return best_.data() + set * stride_; }
  void FindTwins();
  bool Feasible(double cap) const;
  void ComputeRelaxation(const Reachability& reachability);
  void Expand(size_t set, const Reachability& reachability, double& threshold);
  std::optional<CapPassResult> Pass(double cap, double threshold);
  std::vector<StageChoice> Backtrack(size_t set, const Reachability& reachability);

  const StageTable& table_;
  const int n_;
  const int m_;
  const size_t stride_;
  const size_t full_;
  std::vector<size_t> earlier_twins_;  // per worker: the workers before it with equal costs
  std::vector<double> best_;           // [set][layers covered]
  std::vector<int> suffix_cover_;      // [set]
  std::vector<double> relaxed_;        // [layer]
  std::vector<int> alive_;             // scratch of Expand
  ExactSearchStats stats_;
};

// Workers with equal costs are interchangeable: using them in index order loses nothing and turns
// 2^k subsets of k twins into k + 1.
void ExactSearch::FindTwins() {
  earlier_twins_.assign(static_cast<size_t>(m_), 0);
  const std::vector<int> twins = EarlierTwins(table_);
  for (size_t worker = 0; worker < twins.size(); ++worker) {
    if (twins[worker] == kNoWorker) continue;
    const size_t twin = static_cast<size_t>(twins[worker]);
    earlier_twins_[worker] = earlier_twins_[twin] | size_t{1} << twin;
  }
}

bool ExactSearch::Feasible(double cap) const {
  return PrefixCover(Reachability(table_, cap))[full_] == n_;
}

// relaxed_[i]: the least sum that completes [i, n) if every worker could be used again and again: a
// lower bound for every state that has covered i layers.
void ExactSearch::ComputeRelaxation(const Reachability& reachability) {
  relaxed_.assign(stride_, kInfinity);
  relaxed_[static_cast<size_t>(n_)] = 0;
  for (int first = n_ - 1; first >= 0; --first) {
    double least = kInfinity;
    for (int worker = 0; worker < m_; ++worker) {
      const int furthest = reachability.Furthest(worker, first);
      for (int end = first + 1; end <= furthest; ++end) {
        least = std::min(
            least, table_.sum[table_.At(worker, first, end)] + relaxed_[static_cast<size_t>(end)]);
      }
    }
    relaxed_[static_cast<size_t>(first)] = least;
  }
}

// Extends every state of `set` by one stage. Drops states that cannot be completed by the workers
// not in `set`, or not below `threshold`; lowers `threshold` when it completes an assignment.
void ExactSearch::Expand(size_t set, const Reachability& reachability, double& threshold) {
  const size_t rest = full_ & ~set;
  const int lowest = suffix_cover_[rest];
  const double* from = Row(set);
  alive_.clear();
  for (int i = lowest; i < n_; ++i) {
    if (from[i] + relaxed_[static_cast<size_t>(i)] < threshold) alive_.push_back(i);
  }
  if (alive_.empty()) return;
  for (int worker = 0; worker < m_; ++worker) {
    const size_t bit = size_t{1} << worker;
    if ((rest & bit) == 0 || (earlier_twins_[static_cast<size_t>(worker)] & rest) != 0) continue;
    const int lowest_end = suffix_cover_[rest ^ bit];
    double* to = Row(set | bit);
    for (const int first : alive_) {
      const double so_far = from[first];
      const double* cost = table_.sum.data() + table_.At(worker, first, 0);
      const int furthest = reachability.Furthest(worker, first);
      const int begin = std::max(first + 1, lowest_end);
      for (int end = begin; end <= furthest; ++end) to[end] = std::min(to[end], so_far + cost[end]);
      if (furthest >= begin) stats_.transitions += static_cast<uint64_t>(furthest - begin + 1);
    }
    threshold = std::min(threshold, to[n_]);
  }
}

// The least sum below `threshold` with every init at most `cap`; nullopt if there is none.
std::optional<CapPassResult> ExactSearch::Pass(double cap, double threshold) {
  ++stats_.passes;
  const Reachability reachability(table_, cap);
  suffix_cover_ = SuffixCover(reachability);
  if (suffix_cover_[full_] > 0) return std::nullopt;
  ComputeRelaxation(reachability);
  if (relaxed_[0] >= threshold) return std::nullopt;
  best_.assign((full_ + 1) * stride_, kInfinity);
  Row(0)[0] = 0;
  const double limit = threshold;
  // Adding a worker makes the number larger, so that every set is complete when its turn comes.
  for (size_t set = 0; set < full_; ++set) Expand(set, reachability, threshold);
  size_t best_set = 0;
  for (size_t set = 1; set <= full_; ++set) {
    if (Row(set)[n_] < Row(best_set)[n_]) best_set = set;
  }
  if (Row(best_set)[n_] >= limit) return std::nullopt;
  CapPassResult result;
  result.sum = Row(best_set)[n_];
  result.stages = Backtrack(best_set, reachability);
  for (const StageChoice& stage : result.stages) {
    result.init_max =
        std::max(result.init_max, table_.init[table_.At(stage.worker, stage.first, stage.end)]);
  }
  return result;
}

// No back pointers are kept: the stage that made best[set][end] is the one whose sum is equal to
// the last bit.
std::vector<StageChoice> ExactSearch::Backtrack(size_t set, const Reachability& reachability) {
  std::vector<StageChoice> stages;
  int end = n_;
  while (end > 0) {
    bool found = false;
    for (int worker = 0; worker < m_ && !found; ++worker) {
      const size_t bit = size_t{1} << worker;
      if ((set & bit) == 0) continue;
      const double* from = Row(set ^ bit);
      for (int first = reachability.Lowest(worker, end); first < end; ++first) {
        if (from[first] + table_.sum[table_.At(worker, first, end)] != Row(set)[end]) continue;
        stages.push_back({worker, first, end});
        set ^= bit;
        end = first;
        found = true;
        break;
      }
    }
    CHECK(found, "the exact search lost its own path");
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

std::optional<Assignment> ExactSearch::Run() {
  return MinimiseOverCaps(
      table_, [this](double cap) { return Feasible(cap); },
      [this](double cap, double threshold) { return Pass(cap, threshold); });
}

}  // namespace

std::optional<Assignment> FindExact(const StageTable& table, ExactSearchStats* stats) {
  ExactSearch search(table);
  std::optional<Assignment> result = search.Run();
  if (stats != nullptr) *stats = search.stats();
  return result;
}

}  // namespace weft::planner
