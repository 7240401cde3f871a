// Layer norm with vectors (layer_norm.h): sums in fixed lanes, so that bits do not depend on the
// instruction set.
#include "kernels/layer_norm.h"

#include <cmath>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

void LayerNormRow(const LayerNormArgs& args, size_t row) {
  const std::span<const float> in = args.in.Row(row);
  const std::span<float> out = args.out.Row(row);
  const auto count = static_cast<float>(in.size());
  Lanes sum = Splat(0);
  ForLanes(in.size(),
           [&](size_t i, size_t n) HWY_ATTR { sum = Add(sum, LoadSome(in.data() + i, n)); });
  const float mean = SumOf(sum) / count;
  const Lanes means = Splat(mean);
  Lanes squares = Splat(0);
  ForLanes(in.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes centred = Sub(LoadSome(in.data() + i, n, mean), means);
    squares = MulAdd(centred, centred, squares);
  });
  const Lanes inverse_deviation = Splat(1 / std::sqrt(SumOf(squares) / count + args.epsilon));
  ForLanes(in.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes scaled = Mul(Sub(LoadSome(in.data() + i, n), means), inverse_deviation);
    const Lanes bias = args.bias.empty() ? Splat(0) : LoadSome(args.bias.data() + i, n);
    StoreSome(MulAdd(scaled, LoadSome(args.weight.data() + i, n), bias), out.data() + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(LayerNormRow);

void LayerNormSimd(const LayerNormArgs& args, Workspace& workspace) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns &&
        args.weight.size() == args.in.columns &&
        (args.bias.empty() || args.bias.size() == args.in.columns));
  workspace.threads().Run(args.in.rows, [&](size_t row, size_t) {
    HWY_DYNAMIC_DISPATCH(LayerNormRow)(args, row);
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
