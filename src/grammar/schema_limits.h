// How large schemas may be.
#pragma once

#include <cstddef>

namespace weft::grammar {

inline constexpr size_t kMaxSchemaDepth = 64;     // of arrays and objects in it
inline constexpr size_t kMaxSubschemas = 10'000;  // with those that combining makes
inline constexpr size_t kMaxAlternatives = 1'000;
inline constexpr size_t kMaxEnumValues = 5'000;
inline constexpr size_t kMaxKeyBytes = 512;

}  // namespace weft::grammar
