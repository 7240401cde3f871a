// A causal convolution of each column over the rows of its session:
//   out[t] = f(sum over j of weight[column, j] * in[t - taps + 1 + j] (+ bias)).
// State: the last taps - 1 rows of `in`, the oldest first, [taps - 1, columns].
#pragma once

#include "kernels/state_run.h"
#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

inline constexpr size_t kMostConvTaps = 8;  // program::kMaxConvTaps

struct CausalConvArgs {
  ConstRows in;                   // [rows, columns]
  std::span<const float> weight;  // [columns, taps]
  std::span<const float> bias;    // [columns] or empty
  bool silu = false;
  std::span<const StateRun> runs;  // all rows, each once
  Rows out;                        // [rows, columns], apart from `in`
};

void CausalConvReference(const CausalConvArgs& args, Workspace& workspace);
void CausalConvSimd(const CausalConvArgs& args, Workspace& workspace);

}  // namespace weft::kernels
