// The scales that a block of q4 is tried with: its signed extreme divided by each of these.
// Internal to src/tensor.
#pragma once

namespace weft {

// -8 has no positive twin: with scale = extreme / -8 the largest value is exact.
inline constexpr float kQ4Levels[] = {-8.0f, -8.5f,  -8.25f, -7.75f, -7.5f, -7.25f,
                                      -7.0f, -6.75f, -6.5f,  -6.25f, 7.0f,  7.5f};

}  // namespace weft
