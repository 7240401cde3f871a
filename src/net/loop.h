// EventLoop: one thread's queue of work, timers and sockets. The orchestrator's core, its sockets
// and the API all run on one loop, so none of them needs a lock. Long work goes to a TaskQueue
// (base/task_queue.h) and comes back with Post.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"

namespace weft::net {

class LoopContext;

// Sockets, servers and timers of this folder may outlive the loop that they were made on: nothing
// is called any more, and destroying them is safe.
class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs `work` on the loop's thread, after what is already queued. Any thread may call it.
  void Post(std::function<void()> work);

  // A timer that fires once; destroying or cancelling it before means it never fires. Loop thread
  // only.
  class Timer {
   public:
    explicit Timer(EventLoop& loop);
    ~Timer();
    // Replaces an earlier setting.
    void FireAfter(Duration delay, std::function<void()> work);
    void Cancel();

   private:
    struct State;
    std::shared_ptr<State> state_;
  };

  // Serves work until Stop(). Any thread may call Stop().
  void Run();
  void Stop();
  // Runs `on_signal` on the loop at the first SIGINT or SIGTERM. A second one ends the process at
  // once, whatever it is doing.
  void OnStopSignal(std::function<void()> on_signal);
  // Runs `on_signal` on the loop at every SIGHUP, which then does not end the process.
  void OnHangUp(std::function<void()> on_signal);

  // For src/net only: whoever makes a socket or a timer on it holds it as long as that lives.
  const std::shared_ptr<LoopContext>& context() { return context_; }

 private:
  std::shared_ptr<LoopContext> context_;
  void AwaitHangUp();

  struct Signals;
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<Signals> hang_ups_;
  std::function<void()> on_hang_up_;
};

}  // namespace weft::net
