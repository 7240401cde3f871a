// QuantizeRow with vectors, bit for bit as QuantizeRowReference: the lanes of a vector are the
// scales that a block is tried with, so that every sum of squares is added up in the order of the
// values.
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/q4_levels.h"
#include "tensor/q4s_search.h"

// SSE4 and up; older processors take the reference. Scalable vectors are left out: arrays of
// vectors need a length that is known when compiling.
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/blocks_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
constexpr DF df;

constexpr size_t kBlock = kBlockValues;
constexpr size_t kCandidates = 16;  // kQ4Levels, filled up to whole vectors

// The value of the greatest magnitude, the first of several. 0 in a block of zeros.
HWY_INLINE float ExtremeOf(const float* block) {
  VF most = hn::Zero(df);
  for (size_t i = 0; i < kBlock; i += hn::Lanes(df)) {
    most = hn::Max(most, hn::Abs(hn::LoadU(df, block + i)));
  }
  most = hn::MaxOfLanes(df, most);
  if (hn::GetLane(most) == 0) return 0;
  for (size_t i = 0; i < kBlock; i += hn::Lanes(df)) {
    const auto found = hn::Eq(hn::Abs(hn::LoadU(df, block + i)), most);
    const auto lane = hn::FindFirstTrue(df, found);
    if (lane >= 0) return block[i + static_cast<size_t>(lane)];
  }
  return 0;
}

// To f16 and back: what the stored scale will be.
HWY_INLINE VF RoundToHalf(VF x) {
#if HWY_TARGET == HWY_SSE4  // no hardware conversion
  HWY_ALIGN float lanes[kCandidates];
  hn::Store(x, df, lanes);
  for (size_t i = 0; i < hn::Lanes(df); ++i) lanes[i] = F16ToF32(F32ToF16(lanes[i]));
  return hn::Load(df, lanes);
#else
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(df, hn::DemoteTo(d16, x));
#endif
}

HWY_INLINE VF InverseOf(VF scale) {
  return hn::IfThenElseZero(hn::Ne(scale, hn::Zero(df)), hn::Div(hn::Set(df, 1.0f), scale));
}

HWY_INLINE VF Nearest(VF x, VF inverse, float least, float most) {
  return hn::Clamp(hn::Round(hn::Mul(x, inverse)), hn::Set(df, least), hn::Set(df, most));
}

// The level that leaves the least squared error, the first of several.
HWY_INLINE float BestLevel(const float* block, float extreme) {
  HWY_ALIGN float levels[kCandidates];
  HWY_ALIGN float errors[kCandidates];
  for (size_t c = 0; c < kCandidates; ++c) {
    levels[c] = kQ4Levels[c < std::size(kQ4Levels) ? c : 0];
  }
  for (size_t c = 0; c < std::size(kQ4Levels); c += hn::Lanes(df)) {
    const VF scale = RoundToHalf(hn::Div(hn::Set(df, extreme), hn::Load(df, levels + c)));
    const VF inverse = InverseOf(scale);
    VF error = hn::Zero(df);
    for (size_t i = 0; i < kBlock; ++i) {
      const VF x = hn::Set(df, block[i]);
      const VF difference = hn::Sub(x, hn::Mul(Nearest(x, inverse, -8, 7), scale));
      error = hn::Add(error, hn::Mul(difference, difference));
    }
    hn::Store(error, df, errors + c);
  }
  size_t best = 0;
  for (size_t c = 1; c < std::size(kQ4Levels); ++c) {
    if (errors[c] < errors[best]) best = c;
  }
  return levels[best];
}

// Whole numbers of a block, each plus `zero`, as bytes.
HWY_INLINE void StoreNearest(const float* block, float inverse, float least, float most, int zero,
                             uint8_t* out) {
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint8_t, DF> du8;
  for (size_t i = 0; i < kBlock; i += hn::Lanes(df)) {
    const VF q = Nearest(hn::LoadU(df, block + i), hn::Set(df, inverse), least, most);
    const auto shifted = hn::Add(hn::ConvertTo(di, q), hn::Set(di, zero));
    hn::StoreU(hn::DemoteTo(du8, shifted), du8, out + i);
  }
}

void QuantizeQ4(const float* values, size_t block_count, uint8_t* data, uint16_t* scales) {
  for (size_t b = 0; b < block_count; ++b, values += kBlock, data += kBlock / 2) {
    const float extreme = ExtremeOf(values);
    scales[b] = F32ToF16(extreme / BestLevel(values, extreme));
    const float scale = F16ToF32(scales[b]);
    uint8_t bytes[kBlock];
    StoreNearest(values, scale == 0 ? 0 : 1 / scale, -8, 7, 8, bytes);
    for (size_t i = 0; i < kBlock / 2; ++i) {
      data[i] = static_cast<uint8_t>(bytes[2 * i] | bytes[2 * i + 1] << 4);
    }
  }
}

void QuantizeQ8(const float* values, size_t block_count, uint8_t* data, uint16_t* scales) {
  for (size_t b = 0; b < block_count; ++b, values += kBlock, data += kBlock) {
    const float extreme = ExtremeOf(values);
    scales[b] = F32ToF16((extreme < 0 ? -extreme : extreme) / 127);
    const float scale = F16ToF32(scales[b]);
    StoreNearest(values, scale == 0 ? 0 : 1 / scale, -128, 127, 128, data);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(QuantizeQ4);
HWY_EXPORT(QuantizeQ8);

namespace {

bool HasVectors() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  return HWY_TARGET != HWY_SCALAR;
#endif
}

}  // namespace

void QuantizeRow(DType format, std::span<const float> values, MutableByteSpan data,
                 std::span<uint16_t> scales) {
  if (format == DType::kQ4S) {
    const auto columns = static_cast<int64_t>(values.size());
    CHECK(data.size() == static_cast<size_t>(BlockCount(columns) * BlockDataBytes(format)) &&
          scales.size() == static_cast<size_t>(ScaleWords(format, columns)));
    return QuantizeQ4sRow(values, data.data(), scales.data());
  }
  if (format == DType::kQ6K) return QuantizeRowReference(format, values, data, scales);
  static const bool has_vectors = HasVectors();
  const size_t whole = has_vectors ? values.size() / kBlockValues : 0;
  const auto block_bytes = static_cast<size_t>(BlockDataBytes(format));
  CHECK(data.size() == scales.size() * block_bytes && whole <= scales.size());
  if (format == DType::kQ4) {
    HWY_DYNAMIC_DISPATCH(QuantizeQ4)(values.data(), whole, data.data(), scales.data());
  } else {
    HWY_DYNAMIC_DISPATCH(QuantizeQ8)(values.data(), whole, data.data(), scales.data());
  }
  // The last block of a row may be a shorter one.
  if (whole == scales.size()) return;
  QuantizeRowReference(format, values.subspan(whole * kBlockValues),
                       data.subspan(whole * block_bytes), scales.subspan(whole));
}

}  // namespace weft
#endif  // HWY_ONCE
