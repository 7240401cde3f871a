// Programs to and from the bytes of program.proto.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

// The least version of programs that has a dtype or an operation as it is used, and that has all
// that a program needs.
uint32_t VersionOf(DType dtype);
uint32_t VersionOf(const Op& op);
uint32_t VersionOf(const Program& program);

// In the version VersionOf(program).
std::vector<uint8_t> Encode(const Program& program);

// Decodes and validates: version, every id and view in range, shapes of weights fit the operations
// that use them, parts add up to what dtype and shape need, at most one Attention, no empty
// program. The error names the operation.
Result<Program> Decode(ByteSpan bytes);

// The checks of Decode on a program made in memory.
Status Validate(const Program& program);

}  // namespace weft::program
