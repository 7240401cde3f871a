#include "kernels/rms_norm.h"

#include <cmath>

namespace weft::kernels {

void RmsNormReference(const RmsNormArgs& args, Workspace&) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns &&
        args.weight.size() == args.in.columns && args.in.columns % args.groups == 0);
  const size_t columns = args.in.columns / args.groups;
  for (size_t task = 0; task < args.in.rows * args.groups; ++task) {
    const size_t row = task / args.groups, first = task % args.groups * columns;
    const std::span<const float> in = args.in.Row(row).subspan(first, columns);
    const std::span<const float> weight = args.weight.subspan(first, columns);
    const std::span<float> out = args.out.Row(row).subspan(first, columns);
    double sum_of_squares = 0;
    for (const float x : in) sum_of_squares += static_cast<double>(x) * x;
    const double mean = sum_of_squares / static_cast<double>(in.size());
    const auto inverse_rms = static_cast<float>(1 / std::sqrt(mean + args.epsilon));
    for (size_t i = 0; i < in.size(); ++i) out[i] = in[i] * inverse_rms * weight[i];
  }
}

}  // namespace weft::kernels
