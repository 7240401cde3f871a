#include "kernels/layer_norm.h"

#include <cmath>

namespace weft::kernels {

void LayerNormReference(const LayerNormArgs& args, Workspace&) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns &&
        args.weight.size() == args.in.columns &&
        (args.bias.empty() || args.bias.size() == args.in.columns));
  for (size_t row = 0; row < args.in.rows; ++row) {
    const std::span<const float> in = args.in.Row(row);
    const std::span<float> out = args.out.Row(row);
    const auto count = static_cast<double>(in.size());
    double sum = 0;
    for (const float x : in) sum += x;
    const double mean = sum / count;
    double sum_of_squares = 0;
    for (const float x : in) sum_of_squares += (x - mean) * (x - mean);
    const double inverse_deviation = 1 / std::sqrt(sum_of_squares / count + args.epsilon);
    for (size_t i = 0; i < in.size(); ++i) {
      const double bias = args.bias.empty() ? 0 : args.bias[i];
      out[i] = static_cast<float>((in[i] - mean) * inverse_deviation * args.weight[i] + bias);
    }
  }
}

}  // namespace weft::kernels
