#include "kernels/softcap.h"

#include <cmath>

namespace weft::kernels {

void SoftcapReference(const SoftcapArgs& args, Workspace&) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns);
  for (size_t row = 0; row < args.in.rows; ++row) {
    const std::span<const float> in = args.in.Row(row);
    const std::span<float> out = args.out.Row(row);
    for (size_t i = 0; i < in.size(); ++i) out[i] = args.cap * std::tanh(in[i] / args.cap);
  }
}

}  // namespace weft::kernels
