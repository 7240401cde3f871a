// What leads from a state of an automaton to another one.
#pragma once

#include <cstdint>

#include "grammar/rules.h"

namespace weft::grammar {

// The bytes first to last lead to `target`.
struct Edge {
  uint8_t first = 0, last = 0;
  uint32_t target = 0;
};

// A rule is called; behind it a text goes on at `back`.
struct Call {
  RuleId rule = 0;
  uint32_t back = 0;
};

}  // namespace weft::grammar
