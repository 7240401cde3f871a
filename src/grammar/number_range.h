// Numbers between bounds, as the digits that they are written with.
//
//   8 to 123:   8 | 9   |   [1-9][0-9]   |   1 ([0-1][0-9] | 2[0-3])
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/rules.h"

namespace weft::grammar {

struct Bound {
  int64_t value = 0;
  bool excluded = false;
};

struct Bounds {
  std::optional<Bound> least, most;  // nullopt: as far as numbers go (json_rules.h)
};

// Digits of the bounds of numbers that may have a fraction: more, and a fraction beside a bound is
// not told from it any more.
inline constexpr int64_t kMostBoundOfNumber = 999'999'999'999'999;

// Whole numbers. Matches nothing where none is between the bounds.
ExprId AddIntegerRange(const Bounds& bounds, Rules& rules);
// The same with a fraction of some digits, without exponents. REQUIRES: bounds of at most
// kMostBoundOfNumber, of either sign.
ExprId AddNumberRange(const Bounds& bounds, Rules& rules);

}  // namespace weft::grammar
