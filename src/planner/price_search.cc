#include "planner/price_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/beam_search.h"
#include "planner/matching.h"
#include "planner/order_search.h"
#include "planner/window_search.h"

namespace weft::planner {
namespace {

// Rounds of prices for the first range of inits, and for those that it is split into.
constexpr int kFirstRounds = 600, kFurtherRounds = 20;
constexpr double kFirstPriceShare = 0.3, kFurtherPriceShare = 0.1;
constexpr double kLeastStepShare = 1e-3;
// What is left of the last direction: the way jumps between workers from round to round, and their
// mean says more than each.
constexpr double kMomentum = 0.7;
// Rounds without a better bound after which prices move half as far.
constexpr int kPricePatience = 5;
// A way that a beam looks at takes the time of so many stage costs.
constexpr double kBeamWork = 10;
// A range of inits that is narrower is not split any more.
constexpr double kNarrowestRange = 1.0005;
// A bound is reached, or bounds of the same numbers added in another order would differ.
constexpr double kBoundTolerance = 1e-12;

// Assignments whose largest init is above `floor`, at most `cap`.
struct InitRange {
  double floor, cap;
  double bound;                // of their C_total
  std::vector<double> prices;  // that gave it
  int depth = 0;               // splits
};

class PriceSearch {
 public:
  PriceSearch(const StageTable& table, const SearchOptions& options)
      : table_(table),
        options_(options),
        reachability_(table),
        first_twin_(EarlierTwins(table)),
        twin_count_(first_twin_.size(), 0) {
    for (int worker = 0; worker < table.worker_count; ++worker) {
      int& twin = first_twin_[At(worker)];
      twin = twin == kNoWorker ? worker : first_twin_[At(twin)];
      twin_count_[At(twin)] += 1;
    }
  }

  SearchResult Run();

 private:
  static size_t At(int i) { return static_cast<size_t>(i); }
  double StageCount(const Reachability& reachability) const;
  double WorkLeft() const { return options_.price_work - work_; }
  bool IsReached(double bound) const { return bound >= best_.total_cost * (1 - kBoundTolerance); }
  void Offer(const std::vector<StageChoice>& stages);
  void OfferOrders();
  void Polish(const Reachability& reachability, std::vector<StageChoice> stages);
  std::vector<double> Slope(const std::vector<StageChoice>& way) const;
  double RaisePrices(const Reachability& reachability, PricePath& path, InitRange& range);
  bool Beam(const Reachability& reachability, const PricePath& path, double bound,
            const InitRange& range, int width);
  bool Settle(InitRange& range);
  void Improve(const Reachability& reachability, const PricePath& path, double work);
  double LeastFeasibleCap() const;

  const StageTable& table_;
  const SearchOptions& options_;
  const Reachability reachability_;
  std::vector<int> first_twin_;     // [worker] of all with its costs, itself where it has none
  std::vector<double> twin_count_;  // [first of its twins]
  Assignment best_;
  double most_init_ = 0;  // of any stage
  double work_ = 0;
};

void PriceSearch::Offer(const std::vector<StageChoice>& stages) {
  const double total = TotalCost(table_, stages);
  if (total < best_.total_cost) best_ = {stages, total};
}

// Stages that a pass looks at, with what it costs to look at a worker and a layer at all.
double PriceSearch::StageCount(const Reachability& reachability) const {
  double count = 0;
  for (int worker = 0; worker < table_.worker_count; ++worker) {
    for (int first = 0; first < table_.layer_count; ++first) {
      count += 4 + reachability.Furthest(worker, first) - first;
    }
  }
  return count;
}

// Orders in which each worker takes what suits: the most capable first and last, and one that is
// known to hold all layers where one is.
void PriceSearch::OfferOrders() {
  OrderPricer pricer(table_, reachability_, table_.alpha);
  const double most_work = options_.price_work * 0.2;
  for (const std::vector<int>& order : SampleOrders(table_)) {
    const bool found = !best_.stages.empty();
    if (pricer.work() > most_work && found) return;
    if (OrderPricer::IsComplete(pricer.Price(order))) Offer(pricer.Stages());
    work_ = pricer.work();
    // Shuffled orders come last: only needed where nothing else holds all layers.
    if (found && pricer.work() > most_work / 4) return;
  }
}

// Workers for the cuts, then cuts for the order of workers, as long as that improves.
void PriceSearch::Polish(const Reachability& reachability, std::vector<StageChoice> stages) {
  OrderPricer pricer(table_, reachability, table_.alpha);
  double total = kInfinity;
  for (int round = 0; round < 8; ++round) {
    std::vector<int> cuts = {0};
    for (const StageChoice& stage : stages) cuts.push_back(stage.end);
    work_ += static_cast<double>(stages.size() * stages.size()) * table_.worker_count;
    const auto matched = MatchWorkers(table_, reachability, cuts);
    if (!matched) return;
    std::vector<int> order;
    for (const StageChoice& stage : *matched) order.push_back(stage.worker);
    const double price = pricer.Price(order);
    stages = OrderPricer::IsComplete(price) ? pricer.Stages() : *matched;
    Offer(*matched);
    Offer(stages);
    const double now = TotalCost(table_, stages);
    if (now >= total * (1 - 1e-9)) break;
    total = now;
  }
  work_ += pricer.work();
}

// Of the bound, by price: how often more than once the way uses each worker. Uses of twins are
// shared out among them, so that they keep equal prices.
std::vector<double> PriceSearch::Slope(const std::vector<StageChoice>& way) const {
  std::vector<double> uses(twin_count_.size(), 0);  // [first of its twins]
  for (const StageChoice& stage : way) uses[At(first_twin_[At(stage.worker)])] += 1;
  std::vector<double> slope(uses.size());
  for (size_t worker = 0; worker < slope.size(); ++worker) {
    const size_t first = At(first_twin_[worker]);
    slope[worker] = uses[first] / twin_count_[first] - 1;
  }
  return slope;
}

// Subgradient ascent with Polyak's step: towards a bound as high as the best assignment, and half
// as far whenever that has not helped for a while. The range gets the best prices. Returns their
// bound on the sum.
double PriceSearch::RaisePrices(const Reachability& reachability, PricePath& path,
                                InitRange& range) {
  std::vector<double> prices = range.prices, direction(prices.size(), 0);
  const double floor_cost = table_.alpha * range.floor;
  double best_bound = -kInfinity, step_share = 1;
  int since_better = 0;
  std::vector<int> last_cuts;
  const double round_work = StageCount(reachability);
  const double share = range.depth == 0 ? kFirstPriceShare : kFurtherPriceShare;
  const int rounds = std::clamp(static_cast<int>(share * WorkLeft() / round_work), 1,
                                range.depth == 0 ? kFirstRounds : kFurtherRounds);
  for (int round = 0; round < rounds; ++round) {
    const double bound = path.Evaluate(prices);
    work_ += round_work;
    if (!(bound < kInfinity)) return kInfinity;
    if (bound > best_bound) {
      best_bound = bound;
      range.prices = prices;
      since_better = 0;
    } else if (++since_better % kPricePatience == 0) {
      step_share /= 2;
    }
    if (IsReached(best_bound + floor_cost) || step_share < kLeastStepShare) break;
    const std::vector<StageChoice> way = path.Path();
    work_ += round_work * static_cast<double>(way.size()) / table_.layer_count;
    std::vector<int> cuts;
    cuts.reserve(way.size());
    for (const StageChoice& stage : way) cuts.push_back(stage.end);
    // The matching takes longer the more stages there are: then not in every round.
    const bool is_turn = round % std::max<int>(1, static_cast<int>(cuts.size()) / 4) == 0;
    if (is_turn && cuts != last_cuts) Polish(reachability, way);
    last_cuts = cuts;

    const std::vector<double> slope = Slope(way);
    double norm = 0;
    for (size_t w = 0; w < prices.size(); ++w) {
      direction[w] = slope[w] + kMomentum * direction[w];
      if (prices[w] <= 0 && direction[w] < 0) direction[w] = 0;
      norm += direction[w] * direction[w];
    }
    if (norm == 0) break;  // no worker is used twice, and those with a price once
    const double target =
        best_.total_cost < kInfinity ? best_.total_cost - floor_cost : 1.05 * bound;
    const double step = step_share * std::max(target - bound, 1e-6 * bound) / norm;
    for (size_t w = 0; w < prices.size(); ++w) {
      prices[w] = std::max(0.0, prices[w] + step * direction[w]);
    }
  }
  return best_bound;
}

void PriceSearch::Improve(const Reachability& reachability, const PricePath& path, double work) {
  WindowSearch windows(table_, reachability, path);
  while (windows.work() < work && !best_.stages.empty()) {
    const double before = best_.total_cost;
    std::vector<StageChoice> stages = best_.stages;
    windows.Improve(stages, work - windows.work());
    Offer(stages);
    Polish(reachability, stages);
    if (best_.total_cost >= before) break;
  }
  work_ += windows.work();
}

// True: no assignment of the range that is better than the best was dropped.
bool PriceSearch::Beam(const Reachability& reachability, const PricePath& path, double bound,
                       const InitRange& range, int width) {
  if (table_.worker_count > kMaxBeamWorkers) return false;
  BeamSearch beam(table_, reachability, path, bound, range.floor,
                  {width, WorkLeft() / (4 * kBeamWork)});
  const BeamResult found = beam.Run(best_.total_cost);
  work_ += found.work * kBeamWork;
  if (!found.stages.empty()) Offer(found.stages);
  return found.complete;
}

// Raises the range's bound and looks for assignments in it. True: none is better than the best.
bool PriceSearch::Settle(InitRange& range) {
  const Reachability reachability(table_, range.cap);
  PricePath path(table_, reachability);
  const double floor_cost = table_.alpha * range.floor;
  range.bound = std::max(range.bound, RaisePrices(reachability, path, range) + floor_cost);
  if (IsReached(range.bound)) return true;
  const double bound = path.Evaluate(range.prices);
  // Wider beams only for the whole; the parts of a split range come in great numbers.
  const int widest = range.depth == 0 && most_init_ == 0 ? 64 : 1;
  for (int factor = 1; factor <= widest && WorkLeft() > 0; factor *= 4) {
    if (Beam(reachability, path, bound, range, options_.beam_width * factor)) return true;
    Improve(reachability, path, WorkLeft() / 4);
    if (IsReached(range.bound)) return true;
  }
  return false;
}

// Below that, not even workers that are used again could hold all layers.
double PriceSearch::LeastFeasibleCap() const {
  const auto is_feasible = [&](double cap) {
    const Reachability reachability(table_, cap);
    for (int at = 0; at < table_.layer_count;) {
      int furthest = at;
      for (int worker = 0; worker < table_.worker_count; ++worker) {
        furthest = std::max(furthest, reachability.Furthest(worker, at));
      }
      if (furthest == at) return false;
      at = furthest;
    }
    return true;
  };
  double low = most_init_ * 1e-6, high = most_init_;
  if (is_feasible(low)) return 0;
  while (high > low * kNarrowestRange) {
    const double middle = std::sqrt(low * high);
    (is_feasible(middle) ? high : low) = middle;
  }
  return low;
}

// Ranges of the largest init wait by their bound; the lowest is searched, and split where that does
// not settle it. When the lowest bound is that of the best assignment, nothing better exists.
SearchResult PriceSearch::Run() {
  if (table_.alpha > 0) {
    for (int worker = 0; worker < table_.worker_count; ++worker) {
      for (int first = 0; first < table_.layer_count; ++first) {
        const int reach = table_.Reach(worker, first);
        if (reach == first) continue;
        most_init_ = std::max(most_init_, table_.init[table_.At(worker, first, reach)]);
      }
    }
  }
  OfferOrders();
  const std::vector<double> no_prices(static_cast<size_t>(table_.worker_count), 0);
  const double floor = most_init_ > 0 ? LeastFeasibleCap() : 0;
  const double cap = most_init_ > 0 ? most_init_ : kInfinity;
  std::vector<InitRange> open = {{floor, cap, 0, no_prices, 0}};
  SearchResult result;
  result.strategy = SearchStrategy::kPrices;
  double settled_bound = kInfinity;  // the lowest of ranges that are left as they are
  const auto later = [](const InitRange& a, const InitRange& b) { return a.bound > b.bound; };
  while (!open.empty()) {
    if (IsReached(open.front().bound)) break;  // and so are all others
    if (open.front().depth > 0 && WorkLeft() <= 0) break;
    std::pop_heap(open.begin(), open.end(), later);
    InitRange range = std::move(open.back());
    open.pop_back();
    const bool settled = Settle(range);
    if (range.depth == 0) result.prices = range.prices;
    if (settled) continue;
    const double low = std::max(range.floor, most_init_ * 1e-6);
    if (most_init_ == 0 || range.cap <= low * kNarrowestRange) {
      settled_bound = std::min(settled_bound, range.bound);
      continue;
    }
    const double middle = std::sqrt(low * range.cap);
    InitRange upper = range;
    upper.floor = middle;
    upper.bound += table_.alpha * (middle - range.floor);
    range.cap = middle;
    for (InitRange* half : {&range, &upper}) {
      ++half->depth;
      open.push_back(std::move(*half));
      std::push_heap(open.begin(), open.end(), later);
    }
  }
  result.lower_bound = std::min(settled_bound, best_.total_cost);
  if (!open.empty()) result.lower_bound = std::min(result.lower_bound, open.front().bound);
  if (!best_.stages.empty()) result.assignment = best_;
  return result;
}

}  // namespace

SearchResult FindByPrices(const StageTable& table, const SearchOptions& options) {
  return PriceSearch(table, options).Run();
}

}  // namespace weft::planner
