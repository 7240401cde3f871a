#include "registry/download_job.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace weft::registry {
namespace {

constexpr Duration kLongestPause = Seconds(16);
constexpr Duration kLongestRetryAfter = Seconds(300);
constexpr auto kSleepStep = std::chrono::milliseconds(20);

}  // namespace

bool Patience::TryAgain(const Failure& failure) {
  if (!failure.may_pass || cancelled_ || ++failures_ >= attempts_) return false;
  Duration pause = first_pause_ * (int64_t{1} << std::min(failures_ - 1, 20));
  pause = std::min(pause, kLongestPause);
  if (failure.retry_after) {
    if (*failure.retry_after > kLongestRetryAfter) return false;
    pause = std::max(pause, *failure.retry_after);
  }
  Note(failure.error.message() + " Trying again in " +
       std::to_string((pause.us + 999999) / 1000000) + " s.");
  Sleep(pause);
  return !cancelled_;
}

void Patience::Sleep(Duration pause) const {
  const Instant end = MonotonicNow() + pause;
  while (!cancelled_ && MonotonicNow() < end) std::this_thread::sleep_for(kSleepStep);
}

Error Stopped() {
  return Error(ErrorCode::kCancelled,
               "Stopped. What was downloaded is kept: run the command again to go on.");
}

}  // namespace weft::registry
