#include "kernels/workspace.h"

namespace weft::kernels {

float* FloatBuffer::Reserve(size_t float_count) {
  if (float_count > capacity_) {
    data_ = LargeMemory();
    capacity_ = 0;
    data_ = LargeMemory(float_count * sizeof(float));
    capacity_ = float_count;
  }
  return reinterpret_cast<float*>(data_.data());
}

}  // namespace weft::kernels
