// Blocks of MXFP4: 32 indices of e2m1 numbers and a power of two that multiplies them (OCP
// Microscaling Formats 1.0). weft keeps them as q8, without changing a value: twice an e2m1 number
// is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace weft {

inline constexpr size_t kMxfp4Bytes = 16;  // of a block's indices

// Which values the byte j of a block holds, low nibble first.
enum class Mxfp4Order {
  kPairs,   // 2 j and 2 j + 1: safetensors
  kHalves,  // j and j + 16: GGUF
};

// Blocks that lie at equal distances: their indices, and their exponents e for 2^(e - 127).
struct Mxfp4Blocks {
  const uint8_t* indices = nullptr;
  size_t index_stride = 0;
  const uint8_t* exponents = nullptr;
  size_t exponent_stride = 0;
  Mxfp4Order order = Mxfp4Order::kPairs;
};

// Stores `scales.size()` blocks as q8 (tensor/dtype.h), 32 bytes each at `data`. False, with
// nothing written, when half a block's scale is no f16 (2^-24 to 2^15): values must be quantised.
bool Mxfp4ToQ8(const Mxfp4Blocks& blocks, uint8_t* data, std::span<uint16_t> scales);

// The same for all scales: blocks whose scale is no f16 are quantised from their values. REQUIRES:
// finite values, matching sizes.
void Mxfp4ToNearestQ8(const Mxfp4Blocks& blocks, MutableByteSpan data, std::span<uint16_t> scales);

// The values of `values.size() / 32` blocks; infinities where f32 has them not.
void Mxfp4ToF32(const Mxfp4Blocks& blocks, std::span<float> values);

}  // namespace weft
