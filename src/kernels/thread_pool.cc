#include "kernels/thread_pool.h"

#include <algorithm>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::kernels {
namespace {

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long the caller spins for the others' last tasks, which are tens of microseconds long.
constexpr Duration kLastTasksTime = Microseconds(60);
constexpr int kPausesPerClockRead = 32;

// What a thread's share has left (ThreadPool::Share).
constexpr uint64_t RestOf(size_t begin, size_t end) {
  return uint64_t{begin} << 32 | end;
}
constexpr size_t BeginOf(uint64_t rest) {
  return rest >> 32;
}
constexpr size_t EndOf(uint64_t rest) {
  return rest & UINT32_MAX;
}

// Spins until `done` holds or `at_most` is over; true when it holds.
template <typename Done>
bool SpinUntil(const Done& done, Duration at_most) {
  const auto deadline = MonotonicNow() + at_most;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (MonotonicNow() < deadline);
  return done();
}

}  // namespace

ThreadPool::ThreadPool(size_t thread_count) : shares_(std::max<size_t>(1, thread_count)) {
  for (size_t thread = 1; thread < thread_count; ++thread) {
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  region_.fetch_add(1, std::memory_order_release);
  region_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunRegion(size_t task_count, Call call, const void* context) {
  if (workers_.empty() || task_count <= 1) {
    for (size_t task = 0; task < task_count; ++task) call(context, task, 0);
    return;
  }
  if (regions_ended_) {
    budget_.Observe(MonotonicNow() - *regions_ended_);
    spin_us_.store(budget_.spin().us, std::memory_order_relaxed);
  }
  call_ = call;
  context_ = context;
  CHECK(task_count <= UINT32_MAX);
  for (size_t thread = 0; thread < shares_.size(); ++thread) {
    const size_t begin = task_count * thread / shares_.size();
    const size_t end = task_count * (thread + 1) / shares_.size();
    shares_[thread].rest.store(RestOf(begin, end), std::memory_order_relaxed);
  }
  workers_busy_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  region_.fetch_add(1, std::memory_order_release);
  region_.notify_all();
  TakeTasks(0);
  const auto idle = [this] { return workers_busy_.load(std::memory_order_acquire) == 0; };
  while (!SpinUntil(idle, kLastTasksTime)) {
    const uint32_t busy = workers_busy_.load(std::memory_order_acquire);
    if (busy != 0) workers_busy_.wait(busy, std::memory_order_acquire);
  }
  regions_ended_ = MonotonicNow();
}

uint32_t ThreadPool::AwaitRegion(uint32_t seen) const {
  const auto changed = [this, seen] { return region_.load(std::memory_order_acquire) != seen; };
  const Duration spin = {spin_us_.load(std::memory_order_relaxed)};
  if (!SpinUntil(changed, spin)) region_.wait(seen, std::memory_order_acquire);
  return region_.load(std::memory_order_acquire);
}

void ThreadPool::WorkerLoop(size_t thread) {
  uint32_t seen = 0;
  while (true) {
    seen = AwaitRegion(seen);
    if (stopping_) return;
    TakeTasks(thread);
    if (workers_busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) workers_busy_.notify_one();
  }
}

std::optional<size_t> ThreadPool::TakeOwn(size_t thread) {
  std::atomic<uint64_t>& rest = shares_[thread].rest;
  uint64_t seen = rest.load(std::memory_order_relaxed);
  while (BeginOf(seen) < EndOf(seen)) {
    const uint64_t left = RestOf(BeginOf(seen) + 1, EndOf(seen));
    if (rest.compare_exchange_weak(seen, left, std::memory_order_relaxed)) return BeginOf(seen);
  }
  return std::nullopt;
}

bool ThreadPool::Steal(size_t thread) {
  while (true) {
    size_t most = 0, victim = 0;
    uint64_t seen = 0;
    for (size_t other = 0; other < shares_.size(); ++other) {
      const uint64_t rest = shares_[other].rest.load(std::memory_order_relaxed);
      const size_t count = EndOf(rest) - std::min(BeginOf(rest), EndOf(rest));
      if (count <= most) continue;
      most = count;
      victim = other;
      seen = rest;
    }
    if (most == 0) return false;
    const size_t middle = EndOf(seen) - (most + 1) / 2;
    if (!shares_[victim].rest.compare_exchange_weak(seen, RestOf(BeginOf(seen), middle),
                                                    std::memory_order_relaxed))
      continue;
    // Nobody takes from an empty share, so it may be written.
    shares_[thread].rest.store(RestOf(middle, EndOf(seen)), std::memory_order_relaxed);
    return true;
  }
}

void ThreadPool::TakeTasks(size_t thread) {
  do {
    while (const std::optional<size_t> task = TakeOwn(thread)) call_(context_, *task, thread);
  } while (Steal(thread));
}

}  // namespace weft::kernels
