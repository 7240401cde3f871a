#include "kernels/shared_threads.h"

#include <algorithm>
#include <utility>

namespace weft::kernels {

SharedThreads::SharedThreads(size_t thread_count)
    : thread_count_(std::max<size_t>(1, thread_count)) {}

size_t SharedThreads::PartNow() const {
  const size_t at_work = std::max<size_t>(1, at_work_.load(std::memory_order_relaxed));
  return std::max<size_t>(1, thread_count_ / at_work);
}

std::unique_ptr<ThreadPool> SharedThreads::Take(size_t thread_count) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(idle_, thread_count, &ThreadPool::thread_count);
    if (found != idle_.end()) {
      auto threads = std::move(*found);
      idle_.erase(found);
      return threads;
    }
  }
  return std::make_unique<ThreadPool>(thread_count);
}

void SharedThreads::GiveBack(std::unique_ptr<ThreadPool> threads) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(threads));
}

SharedThreads::Work::Work(SharedThreads& shared) : shared_(shared) {
  shared_.at_work_.fetch_add(1, std::memory_order_relaxed);
}

SharedThreads::Work::~Work() {
  if (threads_) shared_.GiveBack(std::move(threads_));
  shared_.at_work_.fetch_sub(1, std::memory_order_relaxed);
}

ThreadPool& SharedThreads::Work::Threads() {
  const size_t part = shared_.PartNow();
  if (!threads_ || threads_->thread_count() != part) {
    if (threads_) shared_.GiveBack(std::move(threads_));
    threads_ = shared_.Take(part);
  }
  return *threads_;
}

}  // namespace weft::kernels
