// WriteWatch: notices that a peer takes nothing of what waits for it. For src/net only.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "net/any_stream.h"

namespace weft::net {

// Calls back when something has waited to be written for `limit` without one byte getting out. The
// timer is not set anew with every write: that would cost each token of a stream a system call. It
// fires once in `limit` while something waits, and looks how long ago the last progress was.
class WriteWatch {
 public:
  WriteWatch(const AnyStream::executor_type& executor, Duration limit)
      : state_(std::make_shared<State>(executor, limit)) {}
  ~WriteWatch() { Stop(); }
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;

  // Something waits from now on. `idle_since` gives the time of the last progress, nullopt when
  // nothing waits any more. Neither function is called after Stop().
  void Start(std::function<std::optional<Instant>()> idle_since, std::function<void()> on_stall) {
    if (std::exchange(state_->running, true)) return;
    state_->idle_since = std::move(idle_since);
    state_->on_stall = std::move(on_stall);
    Arm(state_, state_->limit);
  }
  void Stop() {
    // A handler that is queued already finds `running` false.
    state_->running = false;
    state_->timer.cancel();
  }

 private:
  struct State {
    State(const AnyStream::executor_type& executor, Duration stall_limit)
        : timer(executor), limit(stall_limit) {}
    boost::asio::steady_timer timer;
    const Duration limit;
    bool running = false;
    std::function<std::optional<Instant>()> idle_since;
    std::function<void()> on_stall;
  };

  static void Arm(const std::shared_ptr<State>& state, Duration delay) {
    state->timer.expires_after(std::chrono::microseconds(delay.us));
    state->timer.async_wait([state](const boost::system::error_code& error) {
      if (error || !state->running) return;
      const std::optional<Instant> since = state->idle_since();
      if (!since) {
        state->running = false;
        return;
      }
      const Duration left = *since + state->limit - MonotonicNow();
      if (left > Duration()) return Arm(state, left);
      state->running = false;
      state->on_stall();
    });
  }

  std::shared_ptr<State> state_;
};

}  // namespace weft::net
