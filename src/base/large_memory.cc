#include "base/large_memory.h"

#include <new>

#if defined(__linux__)
#include <sys/mman.h>
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

}  // namespace weft
