// The output head in ranges of the vocabulary, which several devices may compute:
//
//   the layer         RmsNorm, MatMul -> [vocabulary]
//   its hub           RmsNorm, RangeExchange -> [vocabulary]
//   a range           MatMul over some rows of the weight -> [columns]
//
// All ranges have the same number of columns, a multiple of 16, as kernels take 16 rows of a weight
// together. So the last one begins early enough to end with the vocabulary. Example: 100 columns in
// 3 ranges of 48 are 0 to 48, 48 to 96 and 52 to 100.
//
// A logit is the product of a row and one row of the weight. Its bits depend neither on the range
// that it is computed in, nor on who computes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

struct HeadRanges {
  size_t product = 0;       // the MatMul, an index of ops
  uint32_t count = 0;       // at least 2
  uint32_t columns = 0;     // of each
  uint32_t vocabulary = 0;  // of all

  // The first column of a range. REQUIRES: range < count.
  uint32_t First(uint32_t range) const { return std::min(range * columns, vocabulary - columns); }
};

// The ranges that the layer's product names; nullopt where it names none, as in all layers but an
// output head, or where they do not divide it.
std::optional<HeadRanges> FindHeadRanges(const Program& program);

// The head with its product in ranges: about 32, and none below 512 columns. A layer that is no
// head, or whose product has a bias or too few columns, stays as it is.
Program HeadInRanges(const Program& program);

// The head's program of a hub, without the weight of its product. REQUIRES: FindHeadRanges.
Program HeadHubProgram(const Program& program);

// A program that computes a range from the rows that go into the product: [columns of a row] ->
// [columns of a range]. kInvalidArgument: there is no such range. REQUIRES: FindHeadRanges.
Result<Program> RangeProgram(const Program& program, uint32_t range);

}  // namespace weft::program
