// Sixteen f32 lanes, whatever the width of the machine's registers: one on AVX-512, two on AVX2,
// four on SSE4 and NEON. Sums are kept in sixteen lanes and folded in one fixed order. So machines
// with fused multiply-add (AVX2, AVX-512, NEON) compute the same bits, and a session may move
// between them. Included once per target by the *_simd.cc files, inside Highway's dispatch.
#if defined(WEFT_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LANES_INL_H_
#undef WEFT_KERNELS_LANES_INL_H_
#else
#define WEFT_KERNELS_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr size_t kLanes = 16;
using DF = hn::CappedTag<float, kLanes>;
using VF = hn::Vec<DF>;
inline constexpr DF df;
inline constexpr size_t kWidth = hn::MaxLanes(DF());  // lanes of one register
inline constexpr size_t kParts = kLanes / kWidth;

// Arrays of vectors stay in registers only when the loops over them are unrolled completely: hence
// HWY_UNROLL everywhere.
struct Lanes {
  VF part[kParts];
};

// Applies `f` (part -> vector) to each register.
template <typename F>
HWY_INLINE Lanes MakeLanes(const F& f) {
  Lanes result;
  HWY_UNROLL(16)
  for (size_t p = 0; p < kParts; ++p) result.part[p] = f(p);
  return result;
}

HWY_INLINE Lanes Splat(float value) {
  return MakeLanes([&](size_t) HWY_ATTR { return hn::Set(df, value); });
}
HWY_INLINE Lanes LoadLanes(const float* from) {
  return MakeLanes([&](size_t p) HWY_ATTR { return hn::LoadU(df, from + p * kWidth); });
}
HWY_INLINE void StoreLanes(const Lanes& lanes, float* to) {
  HWY_UNROLL(16)
  for (size_t p = 0; p < kParts; ++p) hn::StoreU(lanes.part[p], df, to + p * kWidth);
}
// Whether any of the sixteen is above `bar`.
HWY_INLINE bool AnyAbove(const float* from, const VF& bar) {
  bool any = false;
  HWY_UNROLL(16)
  for (size_t p = 0; p < kParts; ++p) {
    any |= !hn::AllFalse(df, hn::Gt(hn::LoadU(df, from + p * kWidth), bar));
  }
  return any;
}
HWY_INLINE Lanes Mul(const Lanes& a, const Lanes& b) {
  return MakeLanes([&](size_t p) HWY_ATTR { return hn::Mul(a.part[p], b.part[p]); });
}
HWY_INLINE Lanes Add(const Lanes& a, const Lanes& b) {
  return MakeLanes([&](size_t p) HWY_ATTR { return hn::Add(a.part[p], b.part[p]); });
}
HWY_INLINE Lanes Sub(const Lanes& a, const Lanes& b) {
  return MakeLanes([&](size_t p) HWY_ATTR { return hn::Sub(a.part[p], b.part[p]); });
}
HWY_INLINE Lanes Div(const Lanes& a, const Lanes& b) {
  return MakeLanes([&](size_t p) HWY_ATTR { return hn::Div(a.part[p], b.part[p]); });
}
// When either is a NaN, Max and Min give `b`: put what may be one second.
HWY_INLINE Lanes Max(const Lanes& a, const Lanes& b) {
  return MakeLanes([&](size_t p) HWY_ATTR { return hn::Max(a.part[p], b.part[p]); });
}
HWY_INLINE Lanes Min(const Lanes& a, const Lanes& b) {
  return MakeLanes([&](size_t p) HWY_ATTR { return hn::Min(a.part[p], b.part[p]); });
}
// a * b + sum
HWY_INLINE Lanes MulAdd(const Lanes& a, const Lanes& b, const Lanes& sum) {
  return MakeLanes([&](size_t p)
                       HWY_ATTR { return hn::MulAdd(a.part[p], b.part[p], sum.part[p]); });
}

// Sixteen stored values as f32. `from` is aligned to the element.
HWY_INLINE Lanes LoadWiden(const float* from) {
  return LoadLanes(from);
}
struct Half {  // f16 and bf16 as stored; two types, so that LoadWiden can tell them apart
  uint16_t bits;
};
struct BHalf {
  uint16_t bits;
};
HWY_INLINE Lanes LoadWiden(const Half* from) {
  const hn::Rebind<hwy::float16_t, DF> d16;
  return MakeLanes([&](size_t p) HWY_ATTR {
    return hn::PromoteTo(
        df, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from + p * kWidth)));
  });
}
HWY_INLINE Lanes LoadWiden(const BHalf* from) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Rebind<uint32_t, DF> d32;
  return MakeLanes([&](size_t p) HWY_ATTR {
    const auto bits =
        hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from + p * kWidth)));
    return hn::BitCast(df, hn::ShiftLeft<16>(bits));
  });
}

// Folds the lanes: i with i + 8, i + 4, i + 2, i + 1, by `f`, which must take vectors and floats.
template <typename F>
HWY_INLINE float Fold(const Lanes& lanes, const F& f) {
  alignas(64) float four[4];
  if constexpr (kWidth == 16) {
    const hn::Half<DF> d8;
    const hn::Half<decltype(d8)> d4;
    const auto eight = f(hn::LowerHalf(d8, lanes.part[0]), hn::UpperHalf(d8, lanes.part[0]));
    hn::Store(f(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight)), d4, four);
  } else if constexpr (kWidth == 8) {
    const hn::Half<DF> d4;
    const auto eight = f(lanes.part[0], lanes.part[kParts - 1]);
    hn::Store(f(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight)), d4, four);
  } else {
    const VF low = f(lanes.part[0], lanes.part[2 % kParts]);
    const VF high = f(lanes.part[1 % kParts], lanes.part[3 % kParts]);
    hn::Store(f(low, high), df, four);
  }
  const hn::CappedTag<float, 1> d1;
  const auto lane = [&](size_t i) HWY_ATTR { return hn::Set(d1, four[i]); };
  return hn::GetLane(f(f(lane(0), lane(2)), f(lane(1), lane(3))));
}
HWY_INLINE float SumOf(const Lanes& lanes) {
  return Fold(lanes, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}
HWY_INLINE float MaxOf(const Lanes& lanes) {
  return Fold(lanes, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}

// Calls body(i, n) for i = 0, 16, ... with n = 16, the last time with what is left.
template <typename Body>
HWY_INLINE void ForLanes(size_t count, const Body& body) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, kLanes);
  if (i < count) body(i, count - i);
}
// `count` <= 16 values, the rest `fill`.
HWY_INLINE Lanes LoadSome(const float* from, size_t count, float fill = 0) {
  if (count == kLanes) return LoadLanes(from);
  alignas(64) float padded[kLanes];
  for (size_t i = 0; i < kLanes; ++i) padded[i] = i < count ? from[i] : fill;
  return LoadLanes(padded);
}
HWY_INLINE void StoreSome(const Lanes& lanes, float* to, size_t count) {
  if (count == kLanes) return StoreLanes(lanes, to);
  alignas(64) float padded[kLanes];
  StoreLanes(lanes, padded);
  std::memcpy(to, padded, count * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
