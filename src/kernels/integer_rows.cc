#include "kernels/integer_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tensor/half.h"

namespace weft::kernels {
namespace {

void PrepareSuperblock(std::span<const float> row, IntegerInput* out) {
  *out = {};
  const std::optional<uint32_t> exponent = ExponentOf(row);
  if (!exponent) {
    out->scale = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  out->scale = ScaleOf(*exponent);
  const float factor = FactorOf(*exponent);
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
  AddSums(out);
}

}  // namespace

void PrepareIntegers(std::span<const float> row, IntegerInput* out) {
  for (size_t first = 0; first < row.size(); first += 256)
    PrepareSuperblock(row.subspan(first, std::min<size_t>(256, row.size() - first)), out++);
}

void AddSums(IntegerInput* superblock) {
  const int32_t *high = superblock->high_zero, *low = superblock->low_zero;
  for (size_t j = 0; j < 8; ++j) {
    int32_t rest = -(256 * (high[2 * j] + high[2 * j + 1]) + low[2 * j] + low[2 * j + 1]) / 8;
    for (auto& plane : superblock->sums) {
      const int32_t above = (rest + 128) >> 8;
      plane[j] = static_cast<int8_t>(rest - above * 256);
      rest = above;
    }
  }
}

float Q4sDot(std::span<const int8_t> weights, std::span<const float> scales,
             const IntegerInput* row) {
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

float KQuantDot(DType dtype, std::span<const KQuantRecord> records, std::span<const int8_t> levels,
                const IntegerInput* row) {
  float y = 0;
  for (size_t b = 0; b < records.size(); ++b) {
    const KQuantRecord& record = records[b];
    int32_t high = 0, low = 0, minima = 0;
    for (size_t i = 0; i < 256; ++i) {
      const int32_t w = record.scales[i / 16] * levels[b * 256 + i];
      high += w * row[b].high[i];
      low += w * row[b].low[i];
      minima += record.minima[i / 16] * (256 * row[b].high[i] + row[b].low[i]);
    }
    const float both = F16ToF32(record.scale) * row[b].scale;
    y = std::fma(static_cast<float>(high), 256 * both, y);
    y = std::fma(static_cast<float>(low), both, y);
    if (dtype != DType::kQ6K)
      y = std::fma(-static_cast<float>(minima), F16ToF32(record.minimum) * row[b].scale, y);
  }
  return y;
}

}  // namespace weft::kernels
