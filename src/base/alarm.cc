#include "base/alarm.h"

#include <chrono>

namespace weft {

Alarm::~Alarm() {
  Stop();
}

void Alarm::Set(std::optional<Instant> at) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  at_ = at;
  if (!at) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  // One that was put off is looked at when it would have rung, which costs less than waking now.
  if (!asleep_until_ || *at < *asleep_until_) changed_.notify_one();
}

void Alarm::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Alarm::Loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!at_) {
      asleep_until_.reset();
      changed_.wait(lock);
      continue;
    }
    const Duration left = *at_ - MonotonicNow();
    if (left.us > 0) {
      asleep_until_ = at_;
      changed_.wait_for(lock, std::chrono::microseconds(left.us));
      continue;
    }
    at_.reset();
    lock.unlock();
    ring_();
    lock.lock();
  }
}

}  // namespace weft
