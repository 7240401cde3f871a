// Sums of rounded rows with vectors (sum_grid.h).
#include "kernels/simd_targets.h"
#include "kernels/sum_grid.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum_grid_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// The operations of RoundToGrid in their order, so that no bit differs.
void AddRounded(const SumGrid& grid, float weight, std::span<const float> values, float* sum) {
  const bool rounds = grid.step != 0;
  const Lanes weights = Splat(weight), step = Splat(grid.step), limit = Splat(grid.limit);
  const Lanes least = Splat(-grid.limit), steps_per_one = Splat(rounds ? 1 / grid.step : 0);
  const Lanes no_fraction = Splat(kNoFraction);
  ForLanes(values.size(), [&](size_t i, size_t n) HWY_ATTR {
    Lanes value = LoadSome(values.data() + i, n);
    if (rounds) {
      Lanes steps = Mul(value, steps_per_one);
      steps = MakeLanes([&](size_t p) HWY_ATTR {
        const auto at_most = hn::IfThenElse(hn::Gt(steps.part[p], limit.part[p]), limit.part[p],
                                            steps.part[p]);  // a NaN stays one
        return hn::IfThenElse(hn::Lt(at_most, least.part[p]), least.part[p], at_most);
      });
      value = Mul(Sub(Add(steps, no_fraction), no_fraction), step);
    }
    StoreSome(Add(LoadSome(sum + i, n), Mul(weights, value)), sum + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(AddRounded);

void AddRoundedSimd(const SumGrid& grid, float weight, std::span<const float> values,
                    std::span<float> sum) {
  HWY_DYNAMIC_DISPATCH(AddRounded)(grid, weight, values, sum.data());
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
