// Which form of 4 or 8 bits a quantised matrix has, told by the array that lies beside its data:
// f16 scales of blocks of 32, or the records of q4s as u8 (tensor/dtype.h).
#pragma once

#include <cstdint>

#include "onnx/graph.h"
#include "tensor/dtype.h"

namespace weft::lower {

// REQUIRES: 4 or 8 bits. `scale` may be null.
inline DType FormOf(int64_t bits, const onnx::Tensor* scale) {
  if (bits == 8) return DType::kQ8;
  const bool records = scale != nullptr && scale->type == onnx::ElementType::kUint8;
  return records ? DType::kQ4S : DType::kQ4;
}

// Whether `scale` is what belongs to a matrix of this form.
inline bool AreScales(const onnx::Tensor* scale, DType dtype, int64_t rows, int64_t columns) {
  if (scale == nullptr) return false;
  const bool records = dtype == DType::kQ4S;
  const int64_t words = ScaleWords(dtype, columns);
  return scale->type == (records ? onnx::ElementType::kUint8 : onnx::ElementType::kFloat16) &&
         scale->element_count() == rows * words * (records ? 2 : 1);
}

}  // namespace weft::lower
