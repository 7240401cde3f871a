// Whether numbers that came from elsewhere are numbers at all: one pass over their bits.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace weft {

// How many of these f16, bf16 or f32 values are infinite or no number: their exponent has all its
// bits. A rest that is no whole value is not looked at. REQUIRES: one of these types.
uint64_t CountNotFinite(DType dtype, ByteSpan bytes);

}  // namespace weft
