// Causal convolutions with vectors (causal_conv.h): sixteen columns go through a whole run with
// their state in registers.
#include "kernels/causal_conv.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/causal_conv_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Columns [first, first + n) of one run, n <= 16.
void ConvColumns(const CausalConvArgs& args, const StateRun& run, size_t first, size_t n) {
  const size_t columns = args.in.columns, taps = args.weight.size() / columns;
  Lanes weights[kMostConvTaps], past[kMostConvTaps];
  for (size_t j = 0; j < taps; ++j) {
    alignas(64) float column[kLanes] = {};
    for (size_t i = 0; i < n; ++i) column[i] = args.weight[(first + i) * taps + j];
    weights[j] = LoadLanes(column);
    const bool zero = run.before == nullptr || j + 1 == taps;
    past[j] = zero ? Splat(0) : LoadSome(run.before + j * columns + first, n);
  }
  const Lanes bias = args.bias.empty() ? Splat(0) : LoadSome(args.bias.data() + first, n);
  for (size_t row = run.first_row; row < run.first_row + run.row_count; ++row) {
    past[taps - 1] = LoadSome(args.in.Row(row).data() + first, n);
    Lanes sum = bias;
    for (size_t j = 0; j < taps; ++j) sum = MulAdd(weights[j], past[j], sum);
    if (args.silu) sum = Mul(sum, Sigmoid(sum));
    StoreSome(sum, args.out.Row(row).data() + first, n);
    for (size_t j = 0; j + 1 < taps; ++j) past[j] = past[j + 1];
  }
  for (size_t j = 0; j + 1 < taps; ++j) StoreSome(past[j], run.after + j * columns + first, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(ConvColumns);

void CausalConvSimd(const CausalConvArgs& args, Workspace& workspace) {
  const size_t columns = args.in.columns, taps = args.weight.size() / columns;
  CHECK(taps >= 2 && taps <= kMostConvTaps && args.out.columns == columns);
  constexpr size_t kColumns = 16, kColumnsPerTask = 256;
  const size_t parts = (columns + kColumnsPerTask - 1) / kColumnsPerTask;
  workspace.threads().Run(args.runs.size() * parts, [&](size_t task, size_t) {
    const size_t first = task % parts * kColumnsPerTask;
    const size_t end = std::min(columns, first + kColumnsPerTask);
    for (size_t column = first; column < end; column += kColumns) {
      HWY_DYNAMIC_DISPATCH(ConvColumns)
      (args, args.runs[task / parts], column, std::min(kColumns, end - column));
    }
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
