// Pieces of weights for programs that hold a part of a layer.
#pragma once

#include <cstdint>
#include <vector>

#include "program/ir.h"

namespace weft::program {

uint64_t ByteCount(const std::vector<Part>& parts);

// Bytes [begin, begin + byte_count) of what the parts hold one after the other.
std::vector<Part> CutParts(const std::vector<Part>& parts, uint64_t begin, uint64_t byte_count);

// Drops the weights that no operation uses any more.
void DropUnusedWeights(Program& program);

}  // namespace weft::program
