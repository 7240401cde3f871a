// How much a chat template may do. The defaults leave room for prompts of megabytes and stop
// hostile templates in about a second.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// Each of the three limits can be reached without the others. A loop may print nothing (steps), and
// a few steps may double a string (text). Nesting may overflow the stack of the thread, which no
// other limit sees (depth).
struct TemplateLimits {
  uint64_t steps = 10'000'000;           // one a node visited, more for long strings and arrays
  size_t text_bytes = size_t{16} << 20;  // of the result, and of every string on the way
  int depth = 400;                       // nested blocks, expressions and macro calls together
};

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

}  // namespace weft
