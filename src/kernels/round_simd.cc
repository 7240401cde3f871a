// Rounding rows to a wire type and back with vectors (round.h), bit for bit as tensor/half.h.
#include "kernels/round.h"

#include "kernels/simd_targets.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/round_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

void RoundToF16(std::span<float> values) {
#if HWY_TARGET == HWY_SSE4
  for (float& value : values) value = F16ToF32(F32ToF16(value));  // no hardware conversion
#else
  const hn::Rebind<hwy::float16_t, DF> d16;
  ForLanes(values.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes x = LoadSome(values.data() + i, n);
    const Lanes rounded = MakeLanes(
        [&](size_t p) HWY_ATTR { return hn::PromoteTo(df, hn::DemoteTo(d16, x.part[p])); });
    StoreSome(rounded, values.data() + i, n);
  });
#endif
}

void RoundToBF16(std::span<float> values) {
  const hn::RebindToUnsigned<DF> d32;
  const auto round = [&](VF x) HWY_ATTR {
    const auto bits = hn::BitCast(d32, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    const auto up = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff)));
    const auto rounded = hn::BitCast(df, hn::And(up, hn::Set(d32, 0xffff0000u)));
    return hn::IfThenElse(hn::Eq(x, x), rounded, x);  // the carry must not reach a NaN's sign
  };
  ForLanes(values.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes x = LoadSome(values.data() + i, n);
    StoreSome(MakeLanes([&](size_t p) HWY_ATTR { return round(x.part[p]); }), values.data() + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(RoundToF16);
HWY_EXPORT(RoundToBF16);

void RoundSimd(const RoundArgs& args, Workspace& workspace) {
  if (args.dtype == DType::kF32) return;
  CHECK(args.dtype == DType::kF16 || args.dtype == DType::kBF16);
  ForRows(args.values.rows, workspace, [&](size_t row) {
    if (args.dtype == DType::kF16) {
      HWY_DYNAMIC_DISPATCH(RoundToF16)(args.values.Row(row));
    } else {
      HWY_DYNAMIC_DISPATCH(RoundToBF16)(args.values.Row(row));
    }
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
