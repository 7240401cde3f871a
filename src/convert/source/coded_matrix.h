// A matrix that a checkpoint stores as small codes beside the scales of groups of them. Such
// checkpoints were quantised by others before weft sees them:
//   FP8        value(r, c) = code(r, c) * scale(r / block_rows, c / block_columns)
//   GPTQ, AWQ  value(r, c) = (q(r, c) - zero(r, g)) * scale(r, g), where g is the group of c
// Row r is an output of the projection and column c one of its inputs, as in Hugging Face's
// unquantised checkpoints, however the codes lie.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace weft::convert {

class CodedMatrix {
 public:
  virtual ~CodedMatrix() = default;

  // Columns [first_column, first_column + values.size()) of row `row`, in f32 arithmetic.
  virtual void Values(uint64_t row, uint64_t first_column, std::span<float> values) const = 0;

  // Stores row `row` in the block format `to` without any change of a value: whole numbers, and the
  // f16 scale of each block. For q4 the zero point of each block is stored, too, where `zeros` is
  // not empty. REQUIRES: the tensor's RowFormat says that this is exact (IsExact).
  virtual void Repack(uint64_t row, DType to, MutableByteSpan data, std::span<uint16_t> scales,
                      MutableByteSpan zeros) const;
};

// FP8 with scales: one for the matrix, one for each row, or one for each block of rows and columns.
struct Fp8Scales {
  std::vector<float> values;   // [matrices, row blocks, column blocks]
  uint64_t block_rows = 0;     // rows that share a scale
  uint64_t block_columns = 0;  // columns that do
  uint64_t column_blocks = 1;  // scales in a row of blocks
  uint64_t matrix_rows = 0;    // rows of one matrix of a stacked tensor; all rows where it is not
  uint64_t row_blocks = 1;     // rows of blocks in a matrix
};
enum class Fp8Type : uint8_t { kE4M3, kE5M2 };
std::unique_ptr<CodedMatrix> MakeFp8Matrix(Fp8Type type, Slice codes, uint64_t columns,
                                           Fp8Scales scales);

// Whole numbers of 4 or 8 bits in words of 32, least significant first, of which `kGptq` packs
// consecutive columns and `kAwq` the rows 0, 2, 4, 6, 1, 3, 5, 7 of every eight.
enum class WordOrder : uint8_t { kGptq, kAwq };
struct GroupedCodes {
  WordOrder order = WordOrder::kGptq;
  uint32_t bits = 4;
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t groups = 0;
  Slice codes;   // i32: GPTQ [columns * bits / 32, rows], AWQ [columns, rows * bits / 32]
  Slice zeros;   // i32 [groups, rows * bits / 32], packed over rows; empty: the middle, 2^(bits-1)
  Slice scales;  // [groups, rows] of scale_dtype
  DType scale_dtype = DType::kF16;
  uint32_t zero_offset = 0;        // of what is stored: 1 in the older form of GPTQ
  std::vector<uint32_t> group_of;  // [columns]
};

// What repacking a matrix would need.
struct GroupedTraits {
  bool whole_blocks = false;  // every block of 32 columns lies in one group, and scales are f16
  bool has_zeros = false;     // some zero point is not the middle
  bool zeros_fit = false;     // all of them are at most 15
};
GroupedTraits TraitsOf(const GroupedCodes& codes);
std::unique_ptr<CodedMatrix> MakeGroupedMatrix(GroupedCodes codes);

}  // namespace weft::convert
