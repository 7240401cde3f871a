#include "base/task_queue.h"

namespace weft {

TaskQueue::TaskQueue(unsigned thread_count) {
  for (unsigned i = 0; i < thread_count; ++i) threads_.emplace_back([this] { Loop(); });
}

TaskQueue::~TaskQueue() {
  Stop();
}

void TaskQueue::Push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

bool TaskQueue::IsEmpty() const {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

void TaskQueue::Stop() {
  std::deque<std::function<void()>> dropped;  // outside of the lock: what they hold may take long
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void TaskQueue::Loop() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace weft
