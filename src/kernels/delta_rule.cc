#include "kernels/delta_rule.h"

#include <cmath>
#include <vector>

namespace weft::kernels {
namespace {

// x / sqrt(sum of squares + 1e-6), times `scale`.
std::vector<double> Normed(std::span<const float> x, double scale) {
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  std::vector<double> out;
  for (const float value : x) out.push_back(value / std::sqrt(sum + 1e-6) * scale);
  return out;
}

// One row of one value head. `state` [key_columns, value_columns] f32 goes from S to the next S.
void Row(const DeltaRuleArgs& args, size_t row, size_t head, float* state) {
  const size_t keys = args.key_columns(), values = args.value_columns();
  const size_t key_head = args.KeyHead(head);
  const double scale = 1 / std::sqrt(static_cast<double>(keys));
  const auto q = Normed(args.q.Row(row).subspan(key_head * keys, keys), scale);
  const auto k = Normed(args.k.Row(row).subspan(key_head * keys, keys), 1);
  const double beta = SigmoidOf(args.b.Row(row)[head]);
  const double time_step = Softplus(args.a.Row(row)[head] + args.dt_bias[head]);
  const double kept = std::exp(args.decay[head] * time_step);
  for (size_t j = 0; j < values; ++j) {
    double read = 0;
    for (size_t i = 0; i < keys; ++i) read += kept * state[i * values + j] * k[i];
    const double change = beta * (args.v.Row(row)[head * values + j] - read);
    double out = 0;
    for (size_t i = 0; i < keys; ++i) {
      const double next = kept * state[i * values + j] + k[i] * change;
      state[i * values + j] = static_cast<float>(next);
      out += next * q[i];
    }
    args.out.Row(row)[head * values + j] = static_cast<float>(out);
  }
}

}  // namespace

void DeltaRuleReference(const DeltaRuleArgs& args, Workspace&) {
  RunStateHeads(args.runs, args.value_heads, args.key_columns() * args.value_columns(),
                [&](size_t row, size_t head, float* state) { Row(args, row, head, state); });
}

}  // namespace weft::kernels
