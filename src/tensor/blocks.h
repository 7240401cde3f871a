// Quantising rows to the block formats of dtype.h and back.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace weft {

// Quantises one row of `values` to `data` (BlockCount * BlockDataBytes bytes) and `scales`
// (ScaleWords u16). q8: symmetric, scale = max|x| / 127. q4: symmetric around 8. The scale of each
// block is the one of a few candidates around the signed maximum / -8 with the least squared error.
// q4s and q6k: see q4s_search.h and q6k_search.h. REQUIRES: IsBlockFormat(format), but not q4k or
// q5k; matching sizes, finite values, whole superblocks in q6k.
void QuantizeRow(DType format, std::span<const float> values, MutableByteSpan data,
                 std::span<uint16_t> scales);

// The same bits, one value after another: what QuantizeRow is tested against, and what it does
// where the processor has no vectors.
void QuantizeRowReference(DType format, std::span<const float> values, MutableByteSpan data,
                          std::span<uint16_t> scales);

// The inverse; `zero` is empty, or q4's packed zero points of this row.
void DequantizeRow(DType format, ByteSpan data, std::span<const uint16_t> scales, ByteSpan zero,
                   std::span<float> values);

// Converts `count` elements of a plain float dtype (f32, f16, bf16) to f32.
void ToF32(DType from, const uint8_t* data, std::span<float> out);
// The inverse. REQUIRES: `to` is f32, f16 or bf16.
void FromF32(std::span<const float> values, DType to, uint8_t* out);

}  // namespace weft
