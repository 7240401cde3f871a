// Time as the project counts it: microseconds on a monotonic clock. The core takes `now` as an
// argument and never reads a clock; only net, worker and apps call MonotonicNow().
#pragma once

#include <compare>
#include <cstdint>

namespace weft {

// A length of time in microseconds.
struct Duration {
  int64_t us = 0;
  constexpr auto operator<=>(const Duration&) const = default;
  constexpr double seconds() const { return static_cast<double>(us) * 1e-6; }
  constexpr double ms() const { return static_cast<double>(us) * 1e-3; }
};
constexpr Duration Microseconds(int64_t us) {
  return {us};
}
constexpr Duration Milliseconds(int64_t ms) {
  return {ms * 1000};
}
constexpr Duration Seconds(int64_t s) {
  return {s * 1000000};
}
constexpr Duration operator+(Duration a, Duration b) {
  return {a.us + b.us};
}
constexpr Duration operator-(Duration a, Duration b) {
  return {a.us - b.us};
}
constexpr Duration operator*(Duration a, int64_t n) {
  return {a.us * n};
}

// A point in time; only differences mean anything.
struct Instant {
  int64_t us = 0;
  constexpr auto operator<=>(const Instant&) const = default;
};
constexpr Instant operator+(Instant a, Duration b) {
  return {a.us + b.us};
}
constexpr Instant operator-(Instant a, Duration b) {
  return {a.us - b.us};
}
constexpr Duration operator-(Instant a, Instant b) {
  return {a.us - b.us};
}

Instant MonotonicNow();

// The local wall clock, as seconds since 1970 in local time: for people, never for measuring.
int64_t LocalWallClockSeconds();

}  // namespace weft
