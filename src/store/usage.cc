#include "store/usage.h"

namespace weft::store {
namespace {

constexpr int64_t kHourMs = 3'600'000;

}  // namespace

Usage& Usage::operator+=(const Usage& other) {
  requests += other.requests;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  generated_tokens += other.generated_tokens;
  return *this;
}

int64_t HourOf(int64_t time_ms) {
  return time_ms - time_ms % kHourMs;
}

int64_t DayOf(int64_t time_ms) {
  return time_ms - time_ms % (24 * kHourMs);
}

}  // namespace weft::store
