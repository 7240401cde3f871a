// A process on a simulated machine. It may be stopped and go on (SIGSTOP), or be killed. What comes
// for it while it is stopped waits in the machine's buffers, in order.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "sim/scheduler.h"

namespace weft::sim {

class Process {
 public:
  explicit Process(Scheduler& scheduler) : scheduler_(scheduler) {}

  // Does it now, or when the process goes on. A dead process does nothing.
  void Do(std::function<void()> what) {
    if (!is_alive_) return;
    if (is_stopped())
      waiting_.push_back(std::move(what));
    else
      what();
  }
  void Kill() { is_alive_ = false; }
  void Stop(Instant until) { stopped_until_ = until; }
  // Does what has waited. Call it when the stop is over.
  void GoOn() {
    for (const auto& what : std::exchange(waiting_, {})) Do(what);
  }
  bool is_alive() const { return is_alive_; }
  bool is_stopped() const { return scheduler_.now() < stopped_until_; }

 private:
  Scheduler& scheduler_;
  bool is_alive_ = true;
  Instant stopped_until_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace weft::sim
