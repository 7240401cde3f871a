// Ways through the layers that use no worker twice, the most promising few per layer, steered by
// the prices of a PricePath.
//
// The excess of a way so far says how much dearer it is than the best relaxed one. It adds up stage
// by stage, and relaxed bound + excess is a lower bound for every way that begins like it. Where
// all ways that are below the limit fit the beam, what it finds is proven best.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/price_path.h"

namespace weft::planner {

// Workers that a beam can tell apart.
inline constexpr int kMaxBeamWorkers = 512;

struct BeamLimits {
  int width = 64;     // ways kept per layer
  double work = 1e7;  // ways looked at, in all
};

struct BeamResult {
  std::vector<StageChoice> stages;  // empty: nothing below the limit
  bool complete = false;            // no way below the limit was dropped
  double work = 0;
};

class BeamSearch {
 public:
  // `bound`: what the path's last Evaluate gave. Keeps the references.
  BeamSearch(const StageTable& table, const Reachability& reachability, const PricePath& path,
             double bound, double init_floor, const BeamLimits& limits);
  // The best assignment with C_total below `limit` that the beam meets. Complete also where only
  // assignments were dropped whose every init is at most `init_floor`.
  BeamResult Run(double limit);

 private:
  struct Way {
    double sum = 0, init_max = 0, excess = 0;
    int worker = kNoWorker, first = 0;  // its last stage begins there...
    int before = -1;                    // ...after that way, an index into ways_[first]
    std::array<uint64_t, kMaxBeamWorkers / 64> used{};
  };
  struct Step {
    double excess;
    int worker, end;
  };
  double Total(const Way& way) const {
    return bound_ + way.excess + table_.alpha * std::max(init_floor_, way.init_max);
  }
  std::vector<Step> StepsFrom(int layer) const;
  void Thin(int layer);
  void Extend(int layer, int index, const std::vector<Step>& steps);
  std::vector<StageChoice> Trace(int index) const;

  const StageTable& table_;
  const Reachability& reachability_;
  const PricePath& path_;
  const double bound_, init_floor_;
  const BeamLimits limits_;
  const std::vector<int> twins_;
  std::vector<std::vector<Way>> ways_;  // [layers held]
  double limit_ = kInfinity;
  int best_ = -1;  // index into ways_[n]
  BeamResult result_;
};

}  // namespace weft::planner
