// The recurrent state of a layer: how much of it each operation of its program carries, and where.
#pragma once

#include <cstdint>

#include "program/ir.h"

namespace weft::program {

// f32 values that the operation carries from row to row of a session; 0 for operations without
// state. Of a program's weights only shapes are read. REQUIRES: a valid program.
uint64_t StateFloats(const Program& program, const Op& op);
// The same of all operations together: the state of a session in this layer.
uint64_t StateFloats(const Program& program);

}  // namespace weft::program
