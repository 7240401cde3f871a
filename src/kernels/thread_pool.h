// A few threads that run short parallel regions, thousands a second: a decode step has about five
// regions a layer, each of tens of microseconds. Workers spin after a region so that the next one
// starts at once, for as long as gaps between regions usually are (spin_budget.h), then sleep. One
// caller at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "kernels/spin_budget.h"

namespace weft::kernels {

class ThreadPool {
 public:
  // `thread_count` threads take part in a region, the caller included; 0 counts as 1.
  explicit ThreadPool(size_t thread_count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t thread_count() const { return workers_.size() + 1; }

  // Calls body(task, thread) once for each task in [0, task_count), thread in [0, thread_count()),
  // and returns when all are done. Each thread has a contiguous share of the tasks, in order, and
  // then takes half of the largest rest. The body must not throw and must not call Run.
  template <typename Body>
  void Run(size_t task_count, const Body& body) {
    RunRegion(
        task_count,
        [](const void* context, size_t task, size_t thread) {
          (*static_cast<const Body*>(context))(task, thread);
        },
        &body);
  }

 private:
  using Call = void (*)(const void* context, size_t task, size_t thread);

  void RunRegion(size_t task_count, Call call, const void* context);
  void WorkerLoop(size_t thread);
  // Waits until `region_` differs from `seen`: spins, then sleeps.
  uint32_t AwaitRegion(uint32_t seen) const;
  void TakeTasks(size_t thread);

  // The tasks of a thread that nobody has begun: [begin, end), as begin << 32 | end. One number, so
  // that its owner takes from the front while others take from the back.
  struct alignas(64) Share {
    std::atomic<uint64_t> rest{0};
  };
  // The next task of the thread's own share.
  std::optional<size_t> TakeOwn(size_t thread);
  // Makes half of the largest rest the thread's own; false when nothing is left anywhere.
  bool Steal(size_t thread);

  // The region being run; written by the caller before `region_` is bumped.
  Call call_ = nullptr;
  const void* context_ = nullptr;
  bool stopping_ = false;

  // The caller's alone: when the last region ended, and what the gaps since then say.
  std::optional<Instant> regions_ended_;
  SpinBudget budget_;

  alignas(64) std::atomic<uint32_t> region_{0};             // counts regions
  std::atomic<int64_t> spin_us_{SpinBudget::kShortest.us};  // of a worker that waits for the next
  std::vector<Share> shares_;                               // [thread]
  alignas(64) std::atomic<uint32_t> workers_busy_{0};
  std::vector<std::thread> workers_;
};

}  // namespace weft::kernels
