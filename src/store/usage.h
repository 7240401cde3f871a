// What a key was used for: sums, by the hour.
#pragma once

#include <cstdint>
#include <string>

namespace weft::store {

struct Usage {
  int64_t requests = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0;  // of prompts: all, and those not computed again
  int64_t generated_tokens = 0;

  Usage& operator+=(const Usage& other);
  // What counts against a limit of tokens.
  int64_t counted_tokens() const { return prompt_tokens - cached_tokens + generated_tokens; }
  bool operator==(const Usage&) const = default;
};

// Of one key in the hour that begins then.
struct HourlyUsage {
  int64_t hour_ms = 0, key = 0;
  Usage usage;
  std::string model = {};
};

// The first millisecond of the hour, and of the day in UTC.
int64_t HourOf(int64_t time_ms);
int64_t DayOf(int64_t time_ms);

}  // namespace weft::store
