// ThreadPool: a few threads for work that must not hold up the event loop (tokenising, planning,
// cutting graphs).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::net {

class ThreadPool {
 public:
  explicit ThreadPool(unsigned thread_count);
  // Finishes what runs, drops what waits.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Run(std::function<void()> work);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::net
