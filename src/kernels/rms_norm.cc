#include "kernels/rms_norm.h"

#include <cmath>

namespace weft::kernels {

void RmsNormReference(const RmsNormArgs& args, Workspace&) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns &&
        args.weight.size() == args.in.columns);
  for (size_t row = 0; row < args.in.rows; ++row) {
    const std::span<const float> in = args.in.Row(row);
    const std::span<float> out = args.out.Row(row);
    double sum_of_squares = 0;
    for (const float x : in) sum_of_squares += static_cast<double>(x) * x;
    const double mean = sum_of_squares / static_cast<double>(in.size());
    const auto inverse_rms = static_cast<float>(1 / std::sqrt(mean + args.epsilon));
    for (size_t i = 0; i < in.size(); ++i) out[i] = in[i] * inverse_rms * args.weight[i];
  }
}

}  // namespace weft::kernels
