#include "tensor/mxfp4.h"

#include <array>
#include <cmath>

#include "tensor/blocks.h"
#include "tensor/dtype.h"

// Shuffles of 16 bytes: SSSE3 and up, or whatever the other processors have.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/mxfp4.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Twice the values of e2m1 as q8 stores whole numbers: plus 128.
alignas(16) constexpr uint8_t kQ8Levels[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                               128, 127, 126, 125, 124, 122, 120, 116};

void IndicesToQ8(const Mxfp4Blocks& blocks, size_t block_count, uint8_t* data) {
  const uint8_t* indices = blocks.indices;
#if HWY_TARGET == HWY_SCALAR
  const bool pairs = blocks.order == Mxfp4Order::kPairs;
  for (size_t b = 0; b < block_count; ++b, indices += blocks.index_stride, data += kBlockValues) {
    for (size_t j = 0; j < kMxfp4Bytes; ++j) {
      data[pairs ? 2 * j : j] = kQ8Levels[indices[j] & 15];
      data[pairs ? 2 * j + 1 : j + 16] = kQ8Levels[indices[j] >> 4];
    }
  }
#else
  const hn::Full128<uint8_t> d;
  const auto table = hn::Load(d, kQ8Levels);
  const auto mask = hn::Set(d, 15);
  for (size_t b = 0; b < block_count; ++b, indices += blocks.index_stride, data += kBlockValues) {
    const auto bytes = hn::LoadU(d, indices);
    const auto low = hn::TableLookupBytes(table, hn::And(bytes, mask));
    const auto high = hn::TableLookupBytes(table, hn::ShiftRight<4>(bytes));
    const bool pairs = blocks.order == Mxfp4Order::kPairs;
    hn::StoreU(pairs ? hn::InterleaveLower(d, low, high) : low, d, data);
    hn::StoreU(pairs ? hn::InterleaveUpper(d, low, high) : high, d, data + 16);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(IndicesToQ8);

namespace {

// Half of a block's scale, 2^(e - 128), as f16: exponents that f16 has, normal and subnormal.
constexpr int kLeastExponent = 128 - 24, kMaxExponent = 128 + 15;

uint16_t HalfScale(int exponent) {
  const int normal = exponent - 128 + 15;
  return static_cast<uint16_t>(normal > 0 ? normal << 10 : 1 << (exponent - kLeastExponent));
}

// Twice the values of e2m1, so that 2^(e - 128) multiplies them: a power of two that f32 has for
// every e.
constexpr std::array<float, 16> kLevels = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace

bool Mxfp4ToQ8(const Mxfp4Blocks& blocks, uint8_t* data, std::span<uint16_t> scales) {
  for (size_t b = 0; b < scales.size(); ++b) {
    const int exponent = blocks.exponents[b * blocks.exponent_stride];
    if (exponent < kLeastExponent || exponent > kMaxExponent) return false;
  }
  for (size_t b = 0; b < scales.size(); ++b) {
    scales[b] = HalfScale(blocks.exponents[b * blocks.exponent_stride]);
  }
  HWY_DYNAMIC_DISPATCH(IndicesToQ8)(blocks, scales.size(), data);
  return true;
}

void Mxfp4ToNearestQ8(const Mxfp4Blocks& blocks, MutableByteSpan data, std::span<uint16_t> scales) {
  if (Mxfp4ToQ8(blocks, data.data(), scales)) return;
  Mxfp4Blocks block = blocks;
  for (size_t b = 0; b < scales.size(); ++b) {
    const MutableByteSpan out = data.subspan(b * kBlockValues, kBlockValues);
    const auto scale = scales.subspan(b, 1);
    if (!Mxfp4ToQ8(block, out.data(), scale)) {
      std::array<float, kBlockValues> values;
      Mxfp4ToF32(block, values);
      QuantizeRow(DType::kQ8, values, out, scale);
    }
    block.indices += block.index_stride;
    block.exponents += block.exponent_stride;
  }
}

void Mxfp4ToF32(const Mxfp4Blocks& blocks, std::span<float> values) {
  const bool pairs = blocks.order == Mxfp4Order::kPairs;
  for (size_t b = 0; b < values.size() / kBlockValues; ++b) {
    const uint8_t* indices = blocks.indices + b * blocks.index_stride;
    const float scale = std::ldexp(1.0f, blocks.exponents[b * blocks.exponent_stride] - 128);
    float* out = &values[b * kBlockValues];
    for (size_t j = 0; j < kMxfp4Bytes; ++j) {
      out[pairs ? 2 * j : j] = scale * kLevels[indices[j] & 15];
      out[pairs ? 2 * j + 1 : j + 16] = scale * kLevels[indices[j] >> 4];
    }
  }
}

}  // namespace weft
#endif  // HWY_ONCE
