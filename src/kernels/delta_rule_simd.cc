// The gated delta rule with vectors (delta_rule.h). Columns of S do not depend on one another:
// sixteen of a head go through a block of rows in the first-level cache.
#include "kernels/delta_rule.h"

#include <algorithm>
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

inline constexpr size_t kBlockRows = 16;

// What all columns of a head need of some rows.
struct BlockOfRows {
  alignas(64) float q[kBlockRows][kMostStateColumns];
  alignas(64) float k[kBlockRows][kMostStateColumns];
  float beta[kBlockRows], kept[kBlockRows];
};

void PrepareRows(const DeltaRuleArgs& args, size_t first, size_t count, size_t head,
                 BlockOfRows* block) {
  const size_t keys = args.key_columns(), at = args.KeyHead(head) * keys;
  const double scale = 1 / std::sqrt(static_cast<double>(keys));
  for (size_t r = 0; r < count; ++r) {
    const size_t row = first + r;
    Normed(args.q.Row(row).subspan(at, keys), scale, block->q[r]);
    Normed(args.k.Row(row).subspan(at, keys), 1, block->k[r]);
    block->beta[r] = static_cast<float>(SigmoidOf(args.b.Row(row)[head]));
    const double time_step = Softplus(args.a.Row(row)[head] + args.dt_bias[head]);
    block->kept[r] = static_cast<float>(std::exp(args.decay[head] * time_step));
  }
}

// Columns [first, first + n) of a value head through the rows of a run, n <= 16.
void DeltaColumns(const DeltaRuleArgs& args, const StateRun& run, const BlockOfRows& block,
                  size_t head, size_t first, size_t n) {
  const size_t keys = args.key_columns(), values = args.value_columns();
  const StateColumns columns{
      .at = head * keys * values + first, .stride = values, .rows = keys, .n = n};
  alignas(64) float state[kMostStateColumns * kLanes];
  LoadState(run, columns, state);
  for (size_t r = 0; r < run.row_count; ++r) {
    const size_t row = run.first_row + r;
    const float *q = block.q[r], *k = block.k[r];
    const Lanes kept = Splat(block.kept[r]);
    Sums read, out;
    for (size_t i = 0; i < keys; ++i) {
      const Lanes decayed = Mul(LoadLanes(state + i * kLanes), kept);
      StoreLanes(decayed, state + i * kLanes);
      read.part[i % 4] = MulAdd(decayed, Splat(k[i]), read.part[i % 4]);
    }
    const Lanes v = LoadSome(args.v.Row(row).data() + head * values + first, n);
    const Lanes change = Mul(Splat(block.beta[r]), Sub(v, read.Total()));
    for (size_t i = 0; i < keys; ++i) {
      const Lanes next = MulAdd(Splat(k[i]), change, LoadLanes(state + i * kLanes));
      StoreLanes(next, state + i * kLanes);
      out.part[i % 4] = MulAdd(next, Splat(q[i]), out.part[i % 4]);
    }
    StoreSome(out.Total(), args.out.Row(row).data() + head * values + first, n);
  }
  KeepState(run, columns, state);
}

// A value head through one run. What its columns share is computed once for a block of rows; its
// state waits in `after` between blocks.
void DeltaHead(const DeltaRuleArgs& args, const StateRun& run, size_t head) {
  BlockOfRows block;
  for (size_t done = 0; done < run.row_count; done += kBlockRows) {
    const size_t count = std::min(kBlockRows, run.row_count - done);
    const StateRun part = {run.first_row + done, count, done == 0 ? run.before : run.after,
                           run.after};
    PrepareRows(args, part.first_row, count, head, &block);
    for (size_t first = 0; first < args.value_columns(); first += kLanes)
      DeltaColumns(args, part, block, head, first, std::min(kLanes, args.value_columns() - first));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(DeltaHead);

void DeltaRuleSimd(const DeltaRuleArgs& args, Workspace& workspace) {
  CHECK(args.key_columns() <= kMostStateColumns);
  workspace.threads().Run(args.runs.size() * args.value_heads, [&](size_t task, size_t) {
    HWY_DYNAMIC_DISPATCH(DeltaHead)
    (args, args.runs[task / args.value_heads], task % args.value_heads);
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
