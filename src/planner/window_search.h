// Improves an assignment piece by piece. A few neighbouring stages are taken out, and their layers
// are assigned anew. Dynamic programming does so over subsets of their workers and of some unused
// ones. Large steps for little work: 2^9 sets of a few dozen layers.
#pragma once

#include <vector>

#include "planner/price_path.h"

namespace weft::planner {

class WindowSearch {
 public:
  // `path` says, at its last prices, which unused workers are worth a look. Keeps the references.
  WindowSearch(const StageTable& table, const Reachability& reachability, const PricePath& path)
      : table_(table), reachability_(reachability), path_(path) {}

  // Improves until no window does, or until `work` stage costs have been looked at. C_total never
  // grows.
  void Improve(std::vector<StageChoice>& stages, double work);
  double work() const { return work_; }

 private:
  struct Entry {
    double sum = kInfinity, init_max = 0;
    int16_t worker = -1, first = 0;  // the last stage: index into the window's workers, layer
  };
  std::vector<int> Spares(const std::vector<StageChoice>& stages, int first, int end, size_t count);
  bool ImproveWindow(std::vector<StageChoice>& stages, size_t begin, size_t count);
  std::vector<StageChoice> Solve(const std::vector<int>& workers, int first, int end,
                                 double outside_max, double limit);

  const StageTable& table_;
  const Reachability& reachability_;
  const PricePath& path_;
  double work_ = 0;
};

}  // namespace weft::planner
