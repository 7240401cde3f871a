// Integers of chat templates: 128 bits, where Python's have no limit. What goes beyond is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::jinja {

__extension__ typedef __int128 Int128;

inline constexpr Int128 kMaxInteger =
    (static_cast<Int128>(INT64_MAX) << 64) | static_cast<Int128>(UINT64_MAX);
inline constexpr Int128 kMinInteger = -kMaxInteger - 1;

// nullopt where the result does not fit.
std::optional<Int128> AddIntegers(Int128 a, Int128 b);
std::optional<Int128> MultiplyIntegers(Int128 a, Int128 b);
// Python's // and %, which round down. REQUIRES: b is not 0, and not a = kMinInteger with b = -1.
Int128 FloorDivide(Int128 a, Int128 b);
Int128 FloorModulo(Int128 a, Int128 b);

// `value` towards 0; nullopt for NaN, infinity and what does not fit.
std::optional<Int128> IntegerOf(double value);
// Limited to what fits into 64 bits.
int64_t Clamped(Int128 value);

// In the base 2 to 16, lower case, with '-' before a negative one.
std::string DigitsOf(Int128 value, int base = 10);
// Digits of that base and nothing else. nullopt also where the number does not fit.
std::optional<Int128> ParseDigits(std::string_view digits, int base);
// As Python's int(text, base) reads it. White space may stand around it, a sign before it, and
// single underscores between digits. Base 0 or the base itself allows a prefix such as 0x.
std::optional<Int128> ParseInteger(std::string_view text, int base);

}  // namespace weft::jinja
