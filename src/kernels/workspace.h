// Every kernel needs this besides its arguments: the threads, and scratch memory. The memory grows
// to the largest call's need and is then reused, so decoding allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/large_memory.h"
#include "kernels/shared_threads.h"
#include "kernels/thread_pool.h"

namespace weft::kernels {

// f32 memory aligned to a cache line; contents undefined.
class FloatBuffer {
 public:
  // Keeps what it has when that is enough, else drops the contents and allocates anew. Throws
  // std::bad_alloc.
  float* Reserve(size_t float_count);
  size_t capacity() const { return capacity_; }

 private:
  LargeMemory data_;
  size_t capacity_ = 0;
};

class Workspace {
 public:
  // With threads of its own.
  explicit Workspace(size_t thread_count)
      : own_(std::make_unique<ThreadPool>(thread_count)),
        threads_(own_.get()),
        private_(own_->thread_count()) {}
  // With what UseThreads gave last.
  explicit Workspace(const SharedThreads& shared) : private_(shared.thread_count()) {}

  // REQUIRES: outside parallel regions, and `threads` are a part of the shared ones.
  void UseThreads(ThreadPool& threads) { threads_ = &threads; }
  ThreadPool& threads() { return *threads_; }

  // Scratch shared by the threads of one call, by purpose: a kernel that calls another (moe_experts
  // calls matmul) must not share a slot with it. Valid until the next Shared of the same slot.
  enum Slot { kMatMulInput, kExperts, kAttention, kSlotCount };
  float* Shared(Slot slot, size_t float_count) { return shared_[slot].Reserve(float_count); }
  size_t SharedCapacity(Slot slot) const { return shared_[slot].capacity(); }
  void FreeShared() {
    for (FloatBuffer& buffer : shared_) buffer = FloatBuffer();
  }

  // Scratch of each thread. Call ReservePrivate outside parallel regions, Private inside.
  void ReservePrivate(size_t float_count) {
    for (FloatBuffer& buffer : private_) buffer.Reserve(float_count);
  }
  float* Private(size_t thread) { return private_[thread].Reserve(0); }

  size_t PrivateCapacity() const { return private_[0].capacity(); }
  size_t thread_count() const { return private_.size(); }

 private:
  std::unique_ptr<ThreadPool> own_;  // null where threads are shared
  ThreadPool* threads_ = nullptr;
  FloatBuffer shared_[kSlotCount];
  std::vector<FloatBuffer> private_;
};

// Calls body(row) for each row, in threads from eight rows on: fewer are done before those start.
template <typename Body>
void ForRows(size_t row_count, Workspace& workspace, const Body& body) {
  if (row_count >= 8)
    return workspace.threads().Run(row_count, [&](size_t row, size_t) { body(row); });
  for (size_t row = 0; row < row_count; ++row) body(row);
}

}  // namespace weft::kernels
