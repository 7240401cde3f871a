// EventLoop: one thread's queue of work, timers and sockets. The orchestrator's core, its sockets
// and the API all run on one loop, so none of them needs a lock; long work goes to a TaskQueue
// (base/task_queue.h) and comes back with Post.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"

namespace boost::asio {
class io_context;
}

namespace weft::net {

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

  boost::asio::io_context& io() { return *io_; }  // for src/net only

 private:
  std::unique_ptr<boost::asio::io_context> io_;
  struct Signals;
  std::unique_ptr<Signals> signals_;
};

}  // namespace weft::net
