// For tests of work that a mistake would make endless: how long it takes, and how long it may.
// Tests only.
#pragma once

#include <ctime>

namespace weft {

// Processor time of the calling thread: a machine that is busy with other things fails no test.
inline double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What a limit is multiplied with: the thread sanitizer's code takes ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kTimeLimitFactor = 10;
#else
inline constexpr double kTimeLimitFactor = 1;
#endif

}  // namespace weft
