// RMS norm with vectors (rms_norm.h): sums in fixed lanes, so that bits do not depend on the
// instruction set.
#include "kernels/rms_norm.h"

#include <cmath>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

void RmsNormRow(std::span<const float> in, std::span<const float> weight, float epsilon,
                std::span<float> out) {
  // Two sums, alternately, so that one addition need not wait for the one before.
  Lanes sum[2] = {Splat(0), Splat(0)};
  ForLanes(in.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes x = LoadSome(in.data() + i, n);
    Lanes& to = sum[i / kLanes % 2];
    to = MulAdd(x, x, to);
  });
  const float mean = SumOf(Add(sum[0], sum[1])) / static_cast<float>(in.size());
  const Lanes inverse_rms = Splat(1 / std::sqrt(mean + epsilon));
  ForLanes(in.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes scaled = Mul(LoadSome(in.data() + i, n), inverse_rms);
    StoreSome(Mul(scaled, LoadSome(weight.data() + i, n)), out.data() + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(RmsNormRow);

void RmsNormSimd(const RmsNormArgs& args, Workspace& workspace) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns &&
        args.weight.size() == args.in.columns && args.in.columns % args.groups == 0);
  const size_t columns = args.in.columns / args.groups;
  workspace.threads().Run(args.in.rows * args.groups, [&](size_t task, size_t) {
    const size_t row = task / args.groups, first = task % args.groups * columns;
    HWY_DYNAMIC_DISPATCH(RmsNormRow)
    (args.in.Row(row).subspan(first, columns), args.weight.subspan(first, columns), args.epsilon,
     args.out.Row(row).subspan(first, columns));
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
