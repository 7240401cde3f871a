// The gated delta rule with vectors (delta_rule.h). Columns of S do not depend on one another:
// sixteen of a head go through a whole run in the first-level cache.
#include "kernels/delta_rule.h"

#include <cmath>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/delta_rule_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"
#include "kernels/state_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// `x` times `scale` / sqrt(sum of squares + 1e-6). What is one number a row is computed in double:
// it costs nothing, and the norm behind the rule makes small errors of small outputs large.
HWY_INLINE void Normed(std::span<const float> x, double scale, float* out) {
  Lanes sum = Splat(0);
  ForLanes(x.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes part = LoadSome(x.data() + i, n);
    sum = MulAdd(part, part, sum);
  });
  const Lanes factor =
      Splat(static_cast<float>(scale / std::sqrt(static_cast<double>(SumOf(sum)) + 1e-6)));
  ForLanes(x.size(), [&](size_t i, size_t n) HWY_ATTR {
    StoreSome(Mul(LoadSome(x.data() + i, n), factor), out + i, n);
  });
}

// Four sums side by side hide the latency of fused multiply-add; they are folded in a fixed order.
struct Sums {
  Lanes part[4];
  HWY_INLINE Sums() { HWY_UNROLL(4) for (Lanes& lanes : part) lanes = Splat(0); }
  HWY_INLINE Lanes Total() const { return Add(Add(part[0], part[1]), Add(part[2], part[3])); }
};

// Columns [first, first + n) of value head `head` through one run, n <= 16.
void DeltaColumns(const DeltaRuleArgs& args, const StateRun& run, size_t head, size_t first,
                  size_t n) {
  const size_t keys = args.key_columns(), values = args.value_columns();
  const size_t key_head = args.KeyHead(head);
  const StateColumns columns{
      .at = head * keys * values + first, .stride = values, .rows = keys, .n = n};
  const double scale = 1 / std::sqrt(static_cast<double>(keys));
  alignas(64) float state[kMostStateColumns * kLanes];
  alignas(64) float q[kMostStateColumns], k[kMostStateColumns];
  LoadState(run, columns, state);
  for (size_t row = run.first_row; row < run.first_row + run.row_count; ++row) {
    Normed(args.q.Row(row).subspan(key_head * keys, keys), scale, q);
    Normed(args.k.Row(row).subspan(key_head * keys, keys), 1, k);
    const auto beta = static_cast<float>(SigmoidOf(args.b.Row(row)[head]));
    const double time_step = Softplus(args.a.Row(row)[head] + args.dt_bias[head]);
    const Lanes kept = Splat(static_cast<float>(std::exp(args.decay[head] * time_step)));
    Sums read, out;
    for (size_t i = 0; i < keys; ++i) {
      const Lanes decayed = Mul(LoadLanes(state + i * kLanes), kept);
      StoreLanes(decayed, state + i * kLanes);
      read.part[i % 4] = MulAdd(decayed, Splat(k[i]), read.part[i % 4]);
    }
    const Lanes v = LoadSome(args.v.Row(row).data() + head * values + first, n);
    const Lanes change = Mul(Splat(beta), Sub(v, read.Total()));
    for (size_t i = 0; i < keys; ++i) {
      const Lanes next = MulAdd(Splat(k[i]), change, LoadLanes(state + i * kLanes));
      StoreLanes(next, state + i * kLanes);
      out.part[i % 4] = MulAdd(next, Splat(q[i]), out.part[i % 4]);
    }
    StoreSome(out.Total(), args.out.Row(row).data() + head * values + first, n);
  }
  KeepState(run, columns, state);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(DeltaColumns);

void DeltaRuleSimd(const DeltaRuleArgs& args, Workspace& workspace) {
  CHECK(args.key_columns() <= kMostStateColumns);
  RunStateColumns(workspace, args.runs, args.value_heads, args.value_columns(),
                  [&](const StateRun& run, size_t head, size_t first, size_t n) {
                    HWY_DYNAMIC_DISPATCH(DeltaColumns)(args, run, head, first, n);
                  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
