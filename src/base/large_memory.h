// Memory in large pages where the system has them: for panels of weights, states, and what kernels
// compute with. A stream of weights is read from those a tenth to a quarter faster. Rows of a
// prompt lie further apart than a small page is long, so each read of a tile needs 16 of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace weft {

class LargeMemory {
 public:
  LargeMemory() = default;
  // Undefined contents, at a multiple of 64. Throws std::bad_alloc.
  explicit LargeMemory(size_t byte_count);

  uint8_t* data() const { return data_.get(); }

  // Gives whole pages of bytes [begin, end) back to the system. What lies there is undefined from
  // then on; all else stays as it is. Systems other than Linux keep the pages.
  void GiveBack(size_t begin, size_t end) const;

 private:
  struct Free {
    Free() : alignment(64) {}
    explicit Free(size_t byte_count) : alignment(byte_count) {}
    size_t alignment;
    void operator()(uint8_t* p) const { ::operator delete (p, std::align_val_t{alignment}); }
  };
  std::unique_ptr<uint8_t, Free> data_;
};

}  // namespace weft
