// The values of a tensor's row lie in a checkpoint file in one of these ways: plain floats, the
// block formats of ggml in GGUF files, and codes whose scales are other tensors. A row of a block
// format is whole blocks, each with its own scales; the layouts are in row_format.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace weft::convert {

enum class RowFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMxfp4,
  // A CodedMatrix (coded_matrix.h) reads these.
  kF8E4M3,
  kF8E5M2,
  kGroups4,      // whole numbers of 4 bits, a scale for every so many blocks of 32
  kGroups4Zero,  // the same with zero points
  kGroups8,      // whole numbers that need 8 bits once their zero point is taken off
  kGroupsOther,  // blocks cannot hold these: one has columns of several groups, say
};

// "Q4_K", "BF16": the spelling of llama.cpp and of safetensors.
std::string_view RowFormatName(RowFormat format);
// Values and bytes of one block; plain floats are blocks of one value.
uint64_t BlockValues(RowFormat format);
uint64_t BlockBytes(RowFormat format);
// f32, f16 or bf16.
bool IsPlain(RowFormat format);
// Whether a tensor of this format has a CodedMatrix.
bool IsCoded(RowFormat format);
// Bytes of one row. REQUIRES: `columns` is a multiple of BlockValues, and the product fits.
uint64_t RowBytes(RowFormat format, uint64_t columns);

// What a package that keeps the checkpoint's precision stores: the nearest dtype that is at least
// as wide. Of Q4_K, Q5_K and Q6_K with `keeps_k_quants` the same blocks, else q8.
DType KeptDType(RowFormat format, bool keeps_k_quants = false);
// Whether rows can be stored in `to` without any change of a value: the same plain dtype, blocks of
// 32 whole numbers with one scale, or the same superblocks.
bool IsExact(RowFormat format, DType to);

// The values of one row, by the definition of the format; f32 arithmetic. REQUIRES: !IsCoded, and
// `row` has RowBytes(format, values.size()) bytes.
void ReadRow(RowFormat format, const uint8_t* row, std::span<float> values);

// Stores a row in block format `to`, block by block. A block of MXFP4 whose scale is outside of
// f16's range is quantised from its values. REQUIRES: IsExact(format, to), IsBlockFormat(to),
// !IsCoded(format), matching sizes.
void RepackRow(RowFormat format, const uint8_t* row, uint64_t columns, DType to,
               MutableByteSpan data, std::span<uint16_t> scales);

}  // namespace weft::convert
