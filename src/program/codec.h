// Programs to and from the bytes of program.proto.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

std::vector<uint8_t> Encode(const Program& program);

// Decodes and validates: version, every id and view in range, shapes of weights fit the operations
// that use them, parts add up to what dtype and shape need, at most one Attention, no empty
// program. The error names the operation.
Result<Program> Decode(ByteSpan bytes);

// The checks of Decode on a program made in memory.
Status Validate(const Program& program);

}  // namespace weft::program
