// The threads of one process for engines that may compute at once, as those of several models do.
// One engine at work has all of them, two have half each. If each had all, two threads would want
// one core, and every region would wait for a thread that the system holds back. Turns on all
// threads would be worse for whoever writes a token: it would wait for whole layers of another
// model's prompt (docs/performance.md has figures).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/thread_pool.h"

namespace weft::kernels {

// On any thread.
class SharedThreads {
 public:
  explicit SharedThreads(size_t thread_count);

  // What one engine has at most.
  size_t thread_count() const { return thread_count_; }

  // One engine at work, from the first layer of a step to its end. On one thread.
  class Work {
   public:
    // `shared` outlives it.
    explicit Work(SharedThreads& shared);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    // Gives the threads for what comes next, which nobody else has: an equal part for everybody who
    // is at work now. Ask again now and then, since others come and go. What was given before is
    // not used any more.
    ThreadPool& Threads();

   private:
    SharedThreads& shared_;
    std::unique_ptr<ThreadPool> threads_;
  };

 private:
  size_t PartNow() const;
  std::unique_ptr<ThreadPool> Take(size_t thread_count);
  void GiveBack(std::unique_ptr<ThreadPool> threads);

  const size_t thread_count_;
  std::atomic<size_t> at_work_ = 0;
  std::mutex mutex_;                               // idle_
  std::vector<std::unique_ptr<ThreadPool>> idle_;  // asleep, until they are taken again
};

}  // namespace weft::kernels
