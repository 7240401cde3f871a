// Pieces of weights for programs that hold a part of a layer.
#pragma once

#include <cstdint>
#include <vector>

#include "program/ir.h"

namespace weft::program {

// The digest of parts whose bytes are zeros, which no blob has. Whoever stores the program writes
// them (convert/package/group_package.h).
inline constexpr Sha256Digest kZeros{};

uint64_t ByteCount(const std::vector<Part>& parts);

// Bytes [begin, begin + byte_count) of what the parts hold one after the other.
std::vector<Part> CutParts(const std::vector<Part>& parts, uint64_t begin, uint64_t byte_count);

// Appends rows [first, first + count) of a matrix to what `out` has. Rows of a stack of matrices
// [experts, rows, columns] are whole matrices.
void AppendRows(const Weight& matrix, uint64_t first, uint64_t count, Weight& out);

// Appends columns [first, first + count) of every row of a matrix: a part a row, until packages
// store panels. REQUIRES: ColumnsDivide of the matrix, `first` and `count` in its multiples.
void AppendColumns(const Weight& matrix, uint64_t first, uint64_t count, Weight& out);

// Whether the rows of a matrix, or of a stack of matrices, can be cut every so many columns: where
// a byte of each array begins, and a block.
bool ColumnsDivide(const Weight& weight, uint64_t columns);

// Drops the weights that no operation uses any more.
void DropUnusedWeights(Program& program);

}  // namespace weft::program
