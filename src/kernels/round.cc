#include "kernels/round.h"

#include "tensor/half.h"

namespace weft::kernels {

void RoundReference(const RoundArgs& args, Workspace&) {
  if (args.dtype == DType::kF32) return;
  CHECK(args.dtype == DType::kF16 || args.dtype == DType::kBF16);
  for (size_t row = 0; row < args.values.rows; ++row) {
    for (float& value : args.values.Row(row)) {
      value = args.dtype == DType::kF16 ? F16ToF32(F32ToF16(value)) : BF16ToF32(F32ToBF16(value));
    }
  }
}

}  // namespace weft::kernels
