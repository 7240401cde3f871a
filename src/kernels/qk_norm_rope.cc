#include "kernels/qk_norm_rope.h"

#include <algorithm>
#include <cmath>

namespace weft::kernels {
namespace {

void NormHead(std::span<float> head, std::span<const float> weight, float epsilon) {
  double sum_of_squares = 0;
  for (const float x : head) sum_of_squares += static_cast<double>(x) * x;
  const double mean = sum_of_squares / static_cast<double>(head.size());
  const auto inverse_rms = static_cast<float>(1 / std::sqrt(mean + epsilon));
  for (size_t i = 0; i < head.size(); ++i) head[i] = head[i] * inverse_rms * weight[i];
}

void RotateHead(std::span<float> head, const QkNormRopeArgs& args, uint32_t position) {
  const size_t half = args.inv_freq.size();
  for (size_t i = 0; i < half; ++i) {
    // The angle is rounded to f32, as the models' own code does: at position 100,000 that is what
    // was trained.
    const float angle = static_cast<float>(position) * args.inv_freq[i];
    const float cosine = std::cos(angle) * args.rope_scale;
    const float sine = std::sin(angle) * args.rope_scale;
    float& a = head[args.interleaved ? 2 * i : i];
    float& b = head[args.interleaved ? 2 * i + 1 : i + half];
    const float rotated_a = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = rotated_a;
  }
}

}  // namespace

void QkNormRopeReference(const QkNormRopeArgs& args, Workspace&) {
  CHECK(args.in.columns == args.heads * args.head_columns && args.out.columns == args.in.columns &&
        args.in.rows == args.out.rows && args.positions.size() == args.in.rows &&
        2 * args.inv_freq.size() <= args.head_columns);
  for (size_t row = 0; row < args.in.rows; ++row) {
    std::copy_n(args.in.Row(row).data(), args.in.columns, args.out.Row(row).data());
    for (size_t head = 0; head < args.heads; ++head) {
      const auto values = args.out.Row(row).subspan(head * args.head_columns, args.head_columns);
      if (!args.norm_weight.empty()) NormHead(values, args.norm_weight, args.epsilon);
      RotateHead(values, args, args.positions[row]);
    }
  }
}

}  // namespace weft::kernels
