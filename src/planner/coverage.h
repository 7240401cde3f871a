// Which layers sets of workers can hold at all, costs aside. Everything rests on one property of
// the cost model: a stage that is allowed stays allowed when it is shortened at either end.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "planner/cost_model.h"

namespace weft::planner {

// The allowed stages under a limit on C_init.
class Reachability {
 public:
  // Takes only stages whose init is at most `init_cap`.
  explicit Reachability(const StageTable& table, double init_cap = kInfinity);
  // Row k is the model's worker `workers[k]`. This takes O(m n), for more workers than a table is
  // made for.
  Reachability(const CostModel& model, const std::vector<int>& workers);

  // furthest[worker][layer], extents (m, n + 1): `layer` itself where no stage may start.
  Reachability(int layer_count, std::vector<int> furthest);

  int layer_count() const { return layer_count_; }
  int worker_count() const { return worker_count_; }
  // Gives the furthest end of a stage that starts at `first`, or `first` where none is allowed.
  int Furthest(int worker, int first) const { return furthest_[At(worker, first)]; }
  // Gives the lowest start of a stage that ends at `end`, or `end` where none is allowed.
  int Lowest(int worker, int end) const { return lowest_[At(worker, end)]; }

 private:
  size_t At(int worker, int layer) const {
    return static_cast<size_t>(worker) * (static_cast<size_t>(layer_count_) + 1) +
           static_cast<size_t>(layer);
  }
  void FindLowest();

  int layer_count_;
  int worker_count_;
  std::vector<int> furthest_, lowest_;  // [worker][layer]
};

// Gives for every set of workers (bit w = worker w) the largest q such that they can hold [0, q).
// This takes O(2^m m). REQUIRES: at most 24 workers.
std::vector<int> PrefixCover(const Reachability& reachability);
// Gives for every set of workers the smallest q such that they can hold [q, n).
std::vector<int> SuffixCover(const Reachability& reachability);

// Gives some workers that together hold all layers, in the order in which they do so when each
// takes as much as it can. Gives none if no such order was found. It finds one wherever few choices
// matter: a device that alone can hold some layer, workers of a few kinds. It may miss one where
// many workers fit only just, since the question is as hard as packing bins. `work` limits the
// workers and layers looked at; what is given here takes half a second.
std::vector<int> FindCover(const Reachability& reachability, uint64_t work = 20'000'000);

void Shuffle(std::vector<int>& order, SeededRandom& random);
// Gives a fixed number of orders of all workers, for searches that cannot try all. They go by how
// much a worker can hold, both ways, and some are shuffled. Up to 16 workers they include one that
// covers the deepest prefix any order can. Beyond, they include one that begins with FindCover. The
// same table always gives the same orders.
std::vector<std::vector<int>> SampleOrders(const StageTable& table);

// What the workers can do where they cannot hold all layers.
struct Shortfall {
  int covered_layers = 0;  // the deepest prefix [0, covered_layers) that they can hold
  int gap_first = 0;       // with one more device that holds [gap_first, gap_end), all layers fit,
  int gap_end = 0;         // and no other gap needs less memory
  uint64_t gap_bytes = 0;
};
// Says what they can do: exactly up to 16 workers, beyond that over a fixed number of orders.
// `weight_factor` is that of the extra device.
Shortfall FindShortfall(const StageTable& table, const std::vector<LayerCost>& layers,
                        double weight_factor);

}  // namespace weft::planner
