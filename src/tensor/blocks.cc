#include "tensor/blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/kquants.h"
#include "tensor/q4_levels.h"
#include "tensor/q4s_search.h"
#include "tensor/q6k_search.h"

namespace weft {
namespace {

// The f16 scale that the stored block will really use.
struct StoredScale {
  uint16_t bits;
  float value;
  float inverse;  // 0 when the block is all zero
};

StoredScale RoundScale(float scale) {
  const uint16_t bits = F32ToF16(scale);
  const float value = F16ToF32(bits);
  return {bits, value, value == 0 ? 0 : 1 / value};
}

// A block with zeros behind a row's end, so that loops over it have a fixed length and vectorise.
using PaddedBlock = std::array<float, kBlockValues>;

PaddedBlock Padded(std::span<const float> block) {
  PaddedBlock padded{};
  std::copy(block.begin(), block.end(), padded.begin());
  return padded;
}

// x / scale as the whole number that is stored, less 8. Adding 1.5 * 2^23 rounds to the nearest
// even number, as lrint does, and leaves it in the low bits; x is at most some 20 scales large.
int QuantizeQ4(float x, float inverse_scale) {
  const auto bits = std::bit_cast<int32_t>(x * inverse_scale + 12582912.0f);
  return std::min(std::max(bits - 0x4b400000, -8), 7);
}

float SquaredError(const PaddedBlock& block, const StoredScale& scale) {
  PaddedBlock errors;
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto level = static_cast<float>(QuantizeQ4(block[i], scale.inverse));
    const float difference = block[i] - level * scale.value;
    errors[i] = difference * difference;
  }
  // Four sums side by side: one could not be vectorised without changing its order.
  std::array<float, 4> sums{};
  for (size_t i = 0; i < errors.size(); i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += errors[i + lane];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A level q of -8..7 stands for q * scale, one more on the negative side, so the value of the
// largest magnitude takes that side: scale = extreme / -8. That keeps the extreme exactly and
// wastes the finest steps; a scale that lets the extreme be clipped or land on a level further in
// often makes the sum of squares smaller. So the scales that put the extreme at each of kQ4Levels
// are tried and the best is kept (docs/quantisation.md measures q4). The sign of `extreme` chooses
// the side: for a positive one the scale is negative.
StoredScale BestQ4Scale(const PaddedBlock& block) {
  float extreme = 0;
  for (const float x : block) {
    if (std::fabs(x) > std::fabs(extreme)) extreme = x;
  }
  StoredScale best = RoundScale(extreme / kQ4Levels[0]);
  float best_error = SquaredError(block, best);
  for (const float levels : std::span(kQ4Levels).subspan(1)) {
    const StoredScale candidate = RoundScale(extreme / levels);
    const float error = SquaredError(block, candidate);
    if (error < best_error) {
      best = candidate;
      best_error = error;
    }
  }
  return best;
}

void QuantizeBlockQ4(std::span<const float> values, uint8_t* data, uint16_t* scale_bits) {
  const PaddedBlock block = Padded(values);
  const StoredScale scale = BestQ4Scale(block);
  *scale_bits = scale.bits;
  for (size_t i = 0; i < block.size(); i += 2) {
    const int low = QuantizeQ4(block[i], scale.inverse) + 8;
    const int high = QuantizeQ4(block[i + 1], scale.inverse) + 8;
    data[i / 2] = static_cast<uint8_t>(low | high << 4);
  }
}

void QuantizeBlockQ8(std::span<const float> block, uint8_t* data, uint16_t* scale_bits) {
  float extreme = 0;
  for (const float x : block) extreme = std::max(extreme, std::fabs(x));
  const StoredScale scale = RoundScale(extreme / 127);
  *scale_bits = scale.bits;
  std::fill_n(data, 32, uint8_t{128});
  for (size_t i = 0; i < block.size(); ++i) {
    const long q = std::clamp(std::lrintf(block[i] * scale.inverse), -128L, 127L);
    data[i] = static_cast<uint8_t>(q + 128);
  }
}

// u16 of the array `scale` in a row.
size_t ScalesOf(DType format, size_t columns) {
  return static_cast<size_t>(ScaleWords(format, static_cast<int64_t>(columns)));
}

// S * w with w = m * (q - 8): exact in f32, 11 bits times 7.
void DequantizeQ4s(ByteSpan data, std::span<const uint16_t> words, std::span<float> values) {
  Q4sRecord record;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t column = i % kSuperblockValues;
    if (column == 0) record = ReadQ4sRecord(&words[i / kSuperblockValues * kSuperblockWords]);
    const int level = ((data[i / 2] >> (i % 2 * 4)) & 15) - 8;
    const int w = record.multipliers[column / kMultiplierValues] * level;
    values[i] = static_cast<float>(w) * F16ToF32(record.scale);
  }
}

}  // namespace

void QuantizeRowReference(DType format, std::span<const float> values, MutableByteSpan data,
                          std::span<uint16_t> scales) {
  const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(values.size())));
  const auto block_bytes = static_cast<size_t>(BlockDataBytes(format));
  CHECK(data.size() == blocks * block_bytes && scales.size() == ScalesOf(format, values.size()) &&
        format != DType::kQ4K && format != DType::kQ5K);
  if (format == DType::kQ6K) return QuantizeQ6kRow(values, data.data(), scales.data());
  if (format == DType::kQ4S) return QuantizeQ4sRowReference(values, data.data(), scales.data());
  for (size_t b = 0; b < blocks; ++b) {
    const size_t first = b * kBlockValues;
    const auto block = values.subspan(first, std::min<size_t>(kBlockValues, values.size() - first));
    if (format == DType::kQ4) {
      QuantizeBlockQ4(block, &data[b * block_bytes], &scales[b]);
    } else {
      QuantizeBlockQ8(block, &data[b * block_bytes], &scales[b]);
    }
  }
}

void DequantizeRow(DType format, ByteSpan data, std::span<const uint16_t> scales, ByteSpan zero,
                   std::span<float> values) {
  const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(values.size())));
  CHECK(data.size() == blocks * static_cast<size_t>(BlockDataBytes(format)) &&
        scales.size() == ScalesOf(format, values.size()));
  CHECK(zero.empty() || (format == DType::kQ4 && zero.size() == (blocks + 1) / 2));
  if (format == DType::kQ4S) return DequantizeQ4s(data, scales, values);
  if (IsKQuant(format)) return DequantizeKQuant(format, data, scales, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t b = i / kBlockValues;
    int q = 0;
    if (format == DType::kQ8) {
      q = data[i] - 128;
    } else {
      const int zero_point = zero.empty() ? 8 : (zero[b / 2] >> (b % 2 * 4)) & 15;
      q = ((data[i / 2] >> (i % 2 * 4)) & 15) - zero_point;
    }
    values[i] = static_cast<float>(q) * F16ToF32(scales[b]);
  }
}

void ToF32(DType from, const uint8_t* data, std::span<float> out) {
  switch (from) {
    case DType::kF32:
      std::memcpy(out.data(), data, out.size_bytes());
      return;
    case DType::kF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = F16ToF32(LoadLe<uint16_t>(data + 2 * i));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = BF16ToF32(LoadLe<uint16_t>(data + 2 * i));
      return;
    default:
      CHECK(false, "ToF32 takes plain float dtypes only");
  }
}

void FromF32(std::span<const float> values, DType to, uint8_t* out) {
  switch (to) {
    case DType::kF32:
      std::memcpy(out, values.data(), values.size_bytes());
      return;
    case DType::kF16:
      for (size_t i = 0; i < values.size(); ++i) StoreLe(out + 2 * i, F32ToF16(values[i]));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < values.size(); ++i) StoreLe(out + 2 * i, F32ToBF16(values[i]));
      return;
    default:
      CHECK(false, "FromF32 gives plain float dtypes only");
  }
}

}  // namespace weft
