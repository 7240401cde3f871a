#include "base/large_memory.h"

#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace weft {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

LargeMemory::LargeMemory(size_t byte_count) {
  const size_t alignment = byte_count >= kLargePage ? kLargePage : 64;
  auto* at = static_cast<uint8_t*>(::operator new (byte_count, std::align_val_t{alignment}));
  data_ = std::unique_ptr<uint8_t, Free>(at, Free{alignment});
#if defined(__linux__)
  // A wish: without large pages the memory is as good, only slower.
  if (alignment == kLargePage) madvise(at, byte_count / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
}

void LargeMemory::GiveBack(size_t begin, size_t end) const {
#if defined(__linux__)
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto base = reinterpret_cast<uintptr_t>(data());
  const uintptr_t first = (base + begin + page - 1) / page * page;
  const uintptr_t last = (base + end) / page * page;
  if (first >= last) return;
  void* at = data() + (first - base);
  // Else the system would make large pages of what is left, and of nothing between it.
  madvise(at, last - first, MADV_NOHUGEPAGE);
  madvise(at, last - first, MADV_DONTNEED);
#else
  static_cast<void>(begin);
  static_cast<void>(end);
#endif
}

}  // namespace weft
