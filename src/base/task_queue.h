// TaskQueue: tasks and the threads that run them, for work that must not hold up its caller. A
// server tokenises, plans and cuts graphs so; a worker fetches, reads and computes. One thread runs
// them in order; several take them in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace weft {

class TaskQueue {
 public:
  explicit TaskQueue(unsigned thread_count = 1);
  ~TaskQueue();  // Stop()
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Any thread.
  void Push(std::function<void()> task);
  // Whether no task waits. Any thread.
  bool IsEmpty() const;
  // Finishes the tasks that run, drops the others, joins the threads. Further tasks are ignored.
  void Stop();

 private:
  void Loop();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft
