#include "base/clock.h"

#include <chrono>

namespace weft {

Instant MonotonicNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::microseconds>(now).count()};
}

}  // namespace weft
