// Products of a layer in ranges of their columns, which several devices may compute:
//
//   an output head    RmsNorm, MatMul -> [vocabulary]
//   its hub           RmsNorm, RangeExchange -> [vocabulary]
//
//   attention         q, k, v: MatMul ... Attention, o: MatMul ...
//   its hub           q, k, v: RangeExchange ... Attention, o: RangeExchange ...
//   a range           MatMul over some rows of the weight -> [columns]
//
// All ranges of a product have the same number of columns, a multiple of 16, as kernels take 16
// rows of a weight together. So the last one begins early enough to end with the product. Example:
// 100 columns in 3 ranges of 48 are 0 to 48, 48 to 96 and 52 to 100.
//
// Ranges are parts of a layer as its experts are, and are numbered behind these, in the order of
// the operations. A layer of 48 neuron groups whose q has 8 ranges and k has 2 has 48 to 55 of q
// and 56 and 57 of k.
//
// A column is the product of a row and one row of the weight. Its bits depend neither on the range
// that it is computed in, nor on who computes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

struct ProductRanges {
  size_t product = 0;       // the MatMul, an index of ops
  uint32_t first_part = 0;  // the number of its first range
  uint32_t exchange = 0;    // that of the first product that is asked for with it
  uint32_t count = 0;       // at least 2
  uint32_t columns = 0;     // of each
  uint32_t total = 0;       // columns of all

  // The first column of a range. REQUIRES: range < count.
  uint32_t First(uint32_t range) const { return std::min(range * columns, total - columns); }
};

// The ranges of all products that name some, in the order of the operations. Where they do not
// divide a product, or it is no output head and the layer has no experts, it is whole.
std::vector<ProductRanges> FindRanges(const Program& program);

// The product of this range among those of FindRanges; nullptr: there is none.
const ProductRanges* FindRange(std::span<const ProductRanges> products, uint32_t part);

// Those of an output head; nullopt: the program is no head, or its product is whole.
std::optional<ProductRanges> FindHeadRanges(const Program& program);

// The head with its product in ranges: about 32, and none below 512 columns. A layer that is no
// head, or whose product has a bias or too few columns, stays as it is.
Program HeadInRanges(const Program& program);

// The layer with its larger products in ranges of at most `most_columns`. Those that read the same
// columns, such as q, k and v, stand next to each other, have ranges of one length and are asked
// for together. A layer without experts or neuron groups stays as it is, and so do products that no
// ranges of 64 columns or more divide.
Program ProductsInRanges(const Program& program, uint32_t most_columns);

// The layer with whole products, whatever ranges they name.
Program WithWholeProducts(const Program& program);

// The program of a hub: RangeExchange in the place of these products, with weights that nothing
// uses any more.
void ExchangeRanges(std::span<const ProductRanges> products, Program& program);

// How many of the exchanges at ops[at] and behind it are one: they read the same columns.
// REQUIRES: there is a RangeExchange.
size_t ExchangedTogether(const Program& program, size_t at);

// The number of the first range of the exchange at ops[at], as of FindRanges.
uint32_t FirstPartAt(const Program& program, size_t at);

// A program that computes these ranges of one product, or of products that are exchanged together,
// from the rows that go into them: [columns of a row] -> [parts * columns of a range], an operation
// for each range. kInvalidArgument: these are no such ranges.
Result<Program> RangesProgram(const Program& program, std::span<const uint32_t> parts);

}  // namespace weft::program
