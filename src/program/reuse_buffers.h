// Lets buffers that are never needed at the same time share memory.
#pragma once

#include "program/ir.h"

namespace weft::program {

// Renames buffers so that an operation writes into one that is dead by then, or in place where the
// operation allows it (ir.h). The input buffer is only ever read. REQUIRES: every buffer is written
// whole, by one operation.
void ReuseBuffers(Program* program);

}  // namespace weft::program
