#include "kernels/workspace.h"

namespace weft::kernels {

float* FloatBuffer::Reserve(size_t float_count) {
  if (float_count > capacity_) {
    data_.reset();
    capacity_ = 0;
    data_.reset(
        static_cast<float*>(::operator new (float_count * sizeof(float), std::align_val_t{64})));
    capacity_ = float_count;
  }
  return data_.get();
}

}  // namespace weft::kernels
