#include "planner/expert_cost.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace weft::planner {

double ExpectedDispatchUs(std::vector<ExpertHolderCost> holders, uint32_t top_k) {
  std::erase_if(holders, [](const ExpertHolderCost& holder) { return holder.share <= 0; });
  double all = 0;
  for (const ExpertHolderCost& holder : holders) all += holder.share;
  std::vector<std::pair<double, double>> times;  // T_i and p_i
  for (const ExpertHolderCost& holder : holders) {
    const double p = holder.share / all;
    const double asked = 1 - std::pow(1 - p, top_k);
    times.emplace_back(holder.round_trip_us + holder.expert_us * top_k * p / asked, p);
  }
  std::sort(times.rbegin(), times.rend());
  double expected = 0, slower = 0;
  for (const auto& [us, p] : times) {
    const double not_slower = std::max(0.0, 1 - slower), faster = std::max(0.0, 1 - slower - p);
    expected += us * (std::pow(not_slower, top_k) - std::pow(faster, top_k));
    slower += p;
  }
  return expected;
}

double SharedDispatchUs(const std::vector<ExpertHolderCost>& holders, uint32_t groups) {
  std::vector<uint32_t> given(holders.size());
  double longest = 0;
  for (uint32_t group = 0; group < groups; ++group) {
    double soonest = HUGE_VAL;
    size_t best = 0;
    for (size_t i = 0; i < holders.size(); ++i) {
      if (given[i] >= holders[i].most) continue;
      const double us = holders[i].round_trip_us + (given[i] + 1) * holders[i].expert_us;
      if (us < soonest) std::tie(soonest, best) = std::pair(us, i);
    }
    if (std::isinf(soonest)) break;
    ++given[best];
    longest = std::max(longest, soonest);
  }
  return longest;
}

}  // namespace weft::planner
