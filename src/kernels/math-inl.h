// The functions exp, tanh and what is built on them, over sixteen lanes. Included once per target,
// inside Highway's dispatch.
#if defined(WEFT_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_MATH_INL_H_
#undef WEFT_KERNELS_MATH_INL_H_
#else
#define WEFT_KERNELS_MATH_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Highway's functions turn a NaN into a number; here it must come through, or broken weights would
// go unnoticed.
HWY_INLINE VF KeepNan(const VF& x, const VF& result) {
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}
// About 1 unit in the last place up to 88; e^-104 and below are 0.
HWY_INLINE Lanes Exp(const Lanes& x) {
  return MakeLanes([&](size_t p) HWY_ATTR { return KeepNan(x.part[p], hn::Exp(df, x.part[p])); });
}
HWY_INLINE Lanes Tanh(const Lanes& x) {
  return MakeLanes([&](size_t p) HWY_ATTR { return KeepNan(x.part[p], hn::Tanh(df, x.part[p])); });
}
HWY_INLINE Lanes Negate(const Lanes& x) {
  return Sub(Splat(0), x);
}
// 1 / (1 + e^-x); e^-x is kept finite.
HWY_INLINE Lanes Sigmoid(const Lanes& x) {
  const Lanes e = Exp(Min(Splat(88), Negate(x)));
  return Div(Splat(1), Add(Splat(1), e));
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
