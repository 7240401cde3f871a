#include "planner/order_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "planner/cap_search.h"

namespace weft::planner {
namespace {

// Far above every real cost in microseconds, far below where a double loses whole layers.
constexpr double kUncoveredLayerPrice = 1e18;

// The temperature falls to the thesis' 10 ms, or further where costs differ by less than that (a
// plan that is long Up differs from another by microseconds).
constexpr double kFinalTemperatureUs = 1e4;
constexpr double kTemperatureRange = 1e-4;
constexpr int kTemperatureProbes = 10;

// The five moves of 5.5.3. REQUIRES: at least 2 workers.
void Perturb(std::vector<int>& order, SeededRandom& random) {
  const size_t m = order.size();
  const auto pick = [&](size_t bound) { return static_cast<size_t>(random.Below(bound)); };
  const uint64_t move = random.Below(10);
  if (move < 2) {  // two non-overlapping ranges change places
    const size_t length = 1 + pick(m / 2);
    const size_t a = pick(m - 2 * length + 1);
    const size_t b = a + length + pick(m - 2 * length - a + 1);
    const auto at = [&](size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
    std::swap_ranges(at(a), at(a + length), at(b));
  } else if (move < 4) {  // a range is reversed
    const size_t a = pick(m - 1);
    const size_t b = a + 2 + pick(m - a - 1);
    std::reverse(order.begin() + static_cast<std::ptrdiff_t>(a),
                 order.begin() + static_cast<std::ptrdiff_t>(b));
  } else if (move < 6) {  // first or last, whose layers are the odd ones, with any other
    if (random.Below(2) == 0) {
      std::swap(order[0], order[1 + pick(m - 1)]);
    } else {
      std::swap(order[m - 1], order[pick(m - 1)]);
    }
  } else {
    const size_t a = pick(m);
    const size_t b = (a + 1 + pick(m - 1)) % m;
    std::swap(order[a], order[b]);
  }
}

struct Candidate {
  std::vector<int> order;
  double price = kInfinity;
};

Candidate BestSample(const StageTable& table, OrderPricer& pricer) {
  Candidate best;
  for (const std::vector<int>& order : SampleOrders(table)) {
    const double price = pricer.Price(order);
    if (price < best.price) best = {order, price};
  }
  return best;
}

// 10 times the mean difference between neighbours: about 90% of bad moves pass at first.
double InitialTemperature(const Candidate& start, OrderPricer& pricer, SeededRandom& random) {
  std::vector<int> order = start.order;
  double last = start.price, difference = 0;
  int counted = 0;
  for (int i = 0; i < kTemperatureProbes; ++i) {
    Perturb(order, random);
    const double price = pricer.Price(order);
    if (OrderPricer::IsComplete(price) && OrderPricer::IsComplete(last)) {
      difference += std::fabs(price - last);
      ++counted;
    }
    last = price;
  }
  return counted > 0 && difference > 0 ? 10 * difference / counted : kFinalTemperatureUs;
}

// Simulated annealing: a worse order is taken with probability exp(-increase / temperature), so
// that the search leaves valleys while it is hot and settles while it cools. The temperature falls
// by the same factor each time, from `initial` to `final_temperature` over all iterations.
void Anneal(Candidate& best, OrderPricer& pricer, SeededRandom& random,
            const SearchOptions& options) {
  const double initial = InitialTemperature(best, pricer, random);
  const double final_temperature = std::min(kFinalTemperatureUs, initial * kTemperatureRange);
  const double cooling =
      std::pow(final_temperature / initial, 1.0 / std::max(1, options.anneal_iterations));
  double temperature = initial;
  Candidate current = best;
  int since_improvement = 0;
  for (int i = 0; i < options.anneal_iterations; ++i, temperature *= cooling) {
    Candidate next{current.order, 0};
    Perturb(next.order, random);
    next.price = pricer.Price(next.order);
    const double increase = next.price - current.price;
    if (increase <= 0 || random.Uniform() < std::exp(-increase / temperature)) {
      current = std::move(next);
    }
    if (current.price < best.price) {
      best = current;
      since_improvement = 0;
    } else if (++since_improvement >= options.anneal_patience) {
      break;
    }
  }
}

// What the chosen order is worth with the max term handled exactly.
std::optional<Assignment> Finish(const StageTable& table, const Candidate& best) {
  if (!OrderPricer::IsComplete(best.price)) return std::nullopt;
  return FindAlongOrder(table, best.order);
}

}  // namespace

OrderPricer::OrderPricer(const StageTable& table, const Reachability& reachability, double alpha)
    : table_(table), reachability_(reachability), alpha_(alpha) {}

bool OrderPricer::IsComplete(double price) {
  return price < kUncoveredLayerPrice;
}

// The dynamic program of 5.4. One worker after the other may take a stage or be skipped; all that
// counts of the past is how many layers are covered:
//
//   best[end] = min(best[end], best[first] + cost(worker, first, end))    for first < end
//
// It is updated in place, one worker a round. With workers A, B and two layers: after A's round
// best[1] and best[2] are A's costs of [0, 1) and [0, 2); in B's round best[2] becomes the least of
// A alone, B alone (first = 0) and A then B (first = 1). With the max term in the cost, one (sum,
// max) pair a state is not enough to be exact: a dearer sum with a smaller max may end lower.
// FindAlongOrder settles that for the order that is chosen in the end.
double OrderPricer::Price(const std::vector<int>& order) {
  const size_t stride = static_cast<size_t>(table_.layer_count) + 1;
  order_ = order;
  sum_.assign(stride, kInfinity);
  max_.assign(stride, 0);
  from_.assign(order.size() * stride, -1);
  sum_[0] = 0;
  work_ += static_cast<double>(from_.size());
  for (size_t position = 0; position < order.size(); ++position) {
    const int worker = order[position];
    int* from = from_.data() + position * stride;
    // Starts downwards: what this worker improves lies above the start, so it is not used twice.
    for (int first = table_.layer_count - 1; first >= 0; --first) {
      const double sum_before = sum_[static_cast<size_t>(first)];
      if (sum_before == kInfinity) continue;
      const double max_before = max_[static_cast<size_t>(first)];
      const size_t row = table_.At(worker, first, 0);
      const int reach = reachability_.Furthest(worker, first);
      work_ += reach - first;
      for (int last = first + 1; last <= reach; ++last) {
        const size_t end = static_cast<size_t>(last);
        const double sum = sum_before + table_.sum[row + end];
        const double max = std::max(max_before, table_.init[row + end]);
        if (sum + alpha_ * max < sum_[end] + alpha_ * max_[end]) {
          sum_[end] = sum;
          max_[end] = max;
          from[end] = first;
        }
      }
    }
  }
  if (sum_.back() < kInfinity) return sum_.back() + alpha_ * max_.back();
  int covered = table_.layer_count - 1;
  while (sum_[static_cast<size_t>(covered)] == kInfinity) --covered;
  return kUncoveredLayerPrice * (table_.layer_count - covered);
}

std::vector<StageChoice> OrderPricer::Stages() const {
  const size_t stride = static_cast<size_t>(table_.layer_count) + 1;
  std::vector<StageChoice> stages;
  int end = table_.layer_count;
  for (size_t position = order_.size(); position-- > 0;) {
    const int first = from_[position * stride + static_cast<size_t>(end)];
    if (first < 0) continue;
    stages.push_back({order_[position], first, end});
    end = first;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

std::optional<Assignment> FindAlongOrder(const StageTable& table, const std::vector<int>& order) {
  // Under a cap only the sum counts, and there one (sum, max) pair per state is exact.
  const auto price_under = [&](double cap) {
    const Reachability reachability(table, cap);
    OrderPricer pricer(table, reachability, 0);
    CapPassResult result;
    result.sum = pricer.Price(order);
    if (!OrderPricer::IsComplete(result.sum)) return std::optional<CapPassResult>();
    result.stages = pricer.Stages();
    for (const StageChoice& stage : result.stages) {
      const double init = table.init[table.At(stage.worker, stage.first, stage.end)];
      result.init_max = std::max(result.init_max, init);
    }
    return std::optional(result);
  };
  return MinimiseOverCaps(
      table, [&](double cap) { return price_under(cap).has_value(); },
      [&](double cap, double threshold) {
        std::optional<CapPassResult> result = price_under(cap);
        if (result && result->sum >= threshold) result.reset();
        return result;
      });
}

std::optional<Assignment> FindAnnealed(const StageTable& table, const SearchOptions& options) {
  const Reachability reachability(table);
  OrderPricer pricer(table, reachability, table.alpha);
  SeededRandom random(options.seed);
  Candidate best = BestSample(table, pricer);
  if (table.worker_count >= 2) {
    for (int i = 0; i < options.anneal_restarts; ++i) Anneal(best, pricer, random, options);
  }
  return Finish(table, best);
}

std::optional<Assignment> FindRandom(const StageTable& table, const SearchOptions& options) {
  const Reachability reachability(table);
  OrderPricer pricer(table, reachability, table.alpha);
  SeededRandom random(options.seed);
  Candidate best = BestSample(table, pricer);
  if (table.worker_count < 2) return Finish(table, best);
  const double start = pricer.work();
  Candidate next = best;
  int orders = 0;
  for (; pricer.work() - start < options.random_work / 4; ++orders) {
    next.order = best.order;
    Shuffle(next.order, random);
    next.price = pricer.Price(next.order);
    if (next.price < best.price) best = next;
  }
  SearchOptions rest = options;
  rest.anneal_iterations = rest.anneal_patience = 3 * orders;
  Anneal(best, pricer, random, rest);
  return Finish(table, best);
}

}  // namespace weft::planner
