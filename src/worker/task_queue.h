// TaskQueue: one thread that runs tasks in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace weft::worker {

class TaskQueue {
 public:
  TaskQueue();
  ~TaskQueue();  // Stop()
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void Push(std::function<void()> task);
  // Finishes the running task, drops the others, joins the thread. Further tasks are ignored.
  void Stop();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weft::worker
