#include "kernels/q4s_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace weft::kernels {
namespace {

float PowerOfTwo(uint32_t biased_exponent) {
  return std::bit_cast<float>(biased_exponent << 23);
}

void PrepareSuperblock(std::span<const float> row, Q4sInput* out) {
  *out = {};
  uint32_t largest = 0;  // magnitudes are ordered as their bits are, infinities and NaNs above all
  for (const float value : row)
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  const uint32_t exponent = std::clamp(largest >> 23, kQ4sLeastExponent, kQ4sMostExponent);
  if (largest >= 0x7f800000u) {
    out->scale = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  out->scale = PowerOfTwo(exponent - 14) * kQ4sInverseHeadroom;
  const float factor = PowerOfTwo(268 - exponent) * kQ4sHeadroom;
  int32_t all = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    // 1.5 * 2^23 has no place for a fraction: the sum is rounded once, to the nearest.
    const float magic = 0x1.8p23f;
    const auto x = static_cast<int32_t>(std::fma(row[i], factor, magic) - magic);
    const int32_t high = (x + 128) >> 8, low = x - high * 256;
    out->high[i] = static_cast<int8_t>(high);
    out->low[i] = static_cast<int8_t>(low);
    out->high_zero[i / 16] -= 8 * high;
    out->low_zero[i / 16] -= 8 * low;
    all += x;
  }
  out->byte_zero = -128 * all;
}

}  // namespace

void PrepareQ4sRow(std::span<const float> row, Q4sInput* out) {
  for (size_t first = 0; first < row.size(); first += 256)
    PrepareSuperblock(row.subspan(first, std::min<size_t>(256, row.size() - first)), out++);
}

float Q4sDot(std::span<const int8_t> weights, std::span<const float> scales, const Q4sInput* row) {
  float y = 0;
  for (size_t b = 0; b < scales.size(); ++b) {
    int32_t high = 0, low = 0;
    const size_t count = std::min<size_t>(256, weights.size() - b * 256);
    for (size_t i = 0; i < count; ++i) {
      high += weights[b * 256 + i] * row[b].high[i];
      low += weights[b * 256 + i] * row[b].low[i];
    }
    y = std::fma(static_cast<float>(high) * 256 + static_cast<float>(low), scales[b] * row[b].scale,
                 y);
  }
  return y;
}

}  // namespace weft::kernels
