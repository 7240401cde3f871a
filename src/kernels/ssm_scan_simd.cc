// The selective scan with vectors (ssm_scan.h): sixteen columns of a head go through a whole run in
// the first-level cache.
#include "kernels/ssm_scan.h"

#include <cmath>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ssm_scan_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"
#include "kernels/state_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Columns [first, first + n) of head `head` through one run, n <= 16.
void ScanColumns(const SsmScanArgs& args, const StateRun& run, size_t head, size_t first,
                 size_t n) {
  const size_t columns = args.head_columns(), states = args.state_columns();
  const size_t group = args.Group(head) * states;
  const StateColumns own{
      .at = head * columns * states + first, .stride = columns, .rows = states, .n = n};
  alignas(64) float state[kMostStateColumns * kLanes];
  LoadState(run, own, state);
  for (size_t row = run.first_row; row < run.first_row + run.row_count; ++row) {
    const double step = args.TimeStep(row, head);
    const Lanes kept = Splat(static_cast<float>(std::exp(args.decay[head] * step)));
    const Lanes x = LoadSome(args.x.Row(row).data() + head * columns + first, n);
    const Lanes scaled = Mul(Splat(static_cast<float>(step)), x);
    const float* b = args.b.Row(row).data() + group;
    const float* c = args.c.Row(row).data() + group;
    Lanes even = Mul(Splat(args.skip[head]), x), odd = Splat(0);
    for (size_t i = 0; i < states; ++i) {
      const Lanes next = MulAdd(scaled, Splat(b[i]), Mul(kept, LoadLanes(state + i * kLanes)));
      StoreLanes(next, state + i * kLanes);
      Lanes& sum = i % 2 == 0 ? even : odd;
      sum = MulAdd(next, Splat(c[i]), sum);
    }
    StoreSome(Add(even, odd), args.out.Row(row).data() + head * columns + first, n);
  }
  KeepState(run, own, state);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(ScanColumns);

void SsmScanSimd(const SsmScanArgs& args, Workspace& workspace) {
  CHECK(args.state_columns() <= kMostStateColumns);
  RunStateColumns(workspace, args.runs, args.heads, args.head_columns(),
                  [&](const StateRun& run, size_t head, size_t first, size_t n) {
                    HWY_DYNAMIC_DISPATCH(ScanColumns)(args, run, head, first, n);
                  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
