// What a hub waits for at a layer whose experts are elsewhere (moex-expert-disaggregation 6.1). A
// layer takes
//
//   T_layer = T_attn + T_route + T_dispatch + T_combine              (eq. 10)
//   T_dispatch = 2 T_net + T_FFN + T_ser + T_deser                   (eq. 11)
//
// of which the planner counts everything but T_dispatch as the layer's compute cost. The paper has
// one T_dispatch for all; here each holder has its own, and a layer ends with the slowest of those
// that it asks. With top_k experts drawn from holders that have shares p_i of them,
//
//   E = sum over i of T_i * ((1 - S_i)^k - (1 - S_i - p_i)^k),   S_i: the shares of slower holders,
//
// because holder i is the slowest one asked where no slower one is asked, but not all draws go to
// faster ones. Example: k = 1 is the mean of T_i by shares.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::planner {

struct ExpertHolderCost {
  double share = 0;            // of the experts, in any unit
  double round_trip_us = 0;    // 2 T_net + T_ser + T_deser
  double expert_us = 0;        // T_FFN of one expert
  uint32_t most = UINT32_MAX;  // experts of a layer that fit its memory
};

// E above, where T_i counts the experts that a holder which is asked computes on average: of k
// draws k p_i / (1 - (1 - p_i)^k). 0 without holders.
double ExpectedDispatchUs(std::vector<ExpertHolderCost> holders, uint32_t top_k);

// The time of a layer in neuron groups, with each asked of one holder. It is the least max over i
// of T_i + n_i * expert_us_i with sum of n_i = `groups` and n_i <= most_i. Only holders with some
// count. One after the other goes to who would be done with it first, which is exact for equal
// groups. Example: 12 groups of 1 ms, one holder without a trip and one 4 ms away: 8 and 4, 8 ms.
// What the holders have no room for does not count.
double SharedDispatchUs(const std::vector<ExpertHolderCost>& holders, uint32_t groups);

}  // namespace weft::planner
