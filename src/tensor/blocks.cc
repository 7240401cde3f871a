#include "tensor/blocks.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tensor/half.h"

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

int QuantizeQ4(float x, float inverse_scale) {
  return std::clamp(static_cast<int>(std::lrintf(x * inverse_scale)), -8, 7);
}

float SquaredError(std::span<const float> block, const StoredScale& scale) {
  float error = 0;
  for (const float x : block) {
    const float difference = x - static_cast<float>(QuantizeQ4(x, scale.inverse)) * scale.value;
    error += difference * difference;
  }
  return error;
}

StoredScale BestQ4Scale(std::span<const float> block) {
  float extreme = 0;
  for (const float x : block) {
    if (std::fabs(x) > std::fabs(extreme)) extreme = x;
  }
  // -8 has no positive twin: with scale = extreme / -8 the largest value is exact.
  StoredScale best = RoundScale(extreme / -8);
  float best_error = SquaredError(block, best);
  for (const float levels :
       {-8.5f, -8.25f, -7.75f, -7.5f, -7.25f, -7.0f, -6.75f, -6.5f, -6.25f, 7.0f, 7.5f}) {
    const StoredScale candidate = RoundScale(extreme / levels);
    const float error = SquaredError(block, candidate);
    if (error < best_error) {
      best = candidate;
      best_error = error;
    }
  }
  return best;
}

void QuantizeBlockQ4(std::span<const float> block, uint8_t* data, uint16_t* scale_bits) {
  const StoredScale scale = BestQ4Scale(block);
  *scale_bits = scale.bits;
  std::fill_n(data, 16, uint8_t{0x88});
  for (size_t i = 0; i < block.size(); ++i) {
    const auto q = static_cast<uint8_t>(QuantizeQ4(block[i], scale.inverse) + 8);
    uint8_t& byte = data[i / 2];
    byte = static_cast<uint8_t>(i % 2 == 0 ? (byte & 0xf0) | q : (byte & 0x0f) | (q << 4));
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

}  // namespace

void QuantizeRow(DType format, std::span<const float> values, MutableByteSpan data,
                 std::span<uint16_t> scales) {
  const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(values.size())));
  const auto block_bytes = static_cast<size_t>(BlockDataBytes(format));
  CHECK(data.size() == blocks * block_bytes && scales.size() == blocks);
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
        scales.size() == blocks);
  CHECK(zero.empty() || (format == DType::kQ4 && zero.size() == (blocks + 1) / 2));
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
