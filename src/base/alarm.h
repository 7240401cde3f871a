// Alarm: calls back at a time, on a thread of its own, for owners without an event loop.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"

namespace weft {

class Alarm {
 public:
  explicit Alarm(std::function<void()> ring) : ring_(std::move(ring)) {}
  ~Alarm();  // Stop()
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // When to ring, in place of what was set before; nullopt: not at all. Any thread, also from
  // within the call back.
  void Set(std::optional<Instant> at);
  // Waits for a call back under way; there is none afterwards.
  void Stop();

 private:
  void Loop();

  const std::function<void()> ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Instant> at_;
  std::optional<Instant> asleep_until_;  // the thread looks at `at_` then at the latest
  bool stopping_ = false;
  std::thread thread_;  // since there is something to ring for
};

}  // namespace weft
