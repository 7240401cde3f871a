// The search for d, multipliers and levels of a superblock of q6k (dtype.h). Only src/tensor uses
// it. All 16 groups of a superblock are searched side by side, so that compilers use vectors. A
// group's sums have one order of their own: every processor finds the same.
#pragma once

#include <cstdint>
#include <span>

namespace weft {

// Quantises one row, as QuantizeRow of blocks.h does. REQUIRES: whole superblocks, matching sizes.
void QuantizeQ6kRow(std::span<const float> values, uint8_t* data, uint16_t* words);

}  // namespace weft
