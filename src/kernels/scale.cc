#include "kernels/scale.h"

namespace weft::kernels {

void ScaleReference(const ScaleArgs& args, Workspace&) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns);
  for (size_t row = 0; row < args.in.rows; ++row) {
    const float* in = args.in.Row(row).data();
    float* out = args.out.Row(row).data();
    for (size_t i = 0; i < args.in.columns; ++i) out[i] = in[i] * args.factor;
  }
}

}  // namespace weft::kernels
