// Norm and rotation of query and key heads with vectors (qk_norm_rope.h).
#include "kernels/qk_norm_rope.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/qk_norm_rope_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE void NormHeadSimd(float* head, std::span<const float> weight, float epsilon) {
  Lanes sum = Splat(0);
  ForLanes(weight.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes x = LoadSome(head + i, n);
    sum = MulAdd(x, x, sum);
  });
  const float mean = SumOf(sum) / static_cast<float>(weight.size());
  const Lanes inverse_rms = Splat(1 / std::sqrt(mean + epsilon));
  ForLanes(weight.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes scaled = Mul(LoadSome(head + i, n), inverse_rms);
    StoreSome(Mul(scaled, LoadSome(weight.data() + i, n)), head + i, n);
  });
}

// `cosine` and `sine` [half] are the row's.
HWY_INLINE void RotateHeadSimd(float* head, size_t half, const float* cosine, const float* sine) {
  ForLanes(half, [&](size_t i, size_t n) HWY_ATTR {
    const Lanes a = LoadSome(head + i, n);
    const Lanes b = LoadSome(head + half + i, n);
    const Lanes c = LoadSome(cosine + i, n);
    const Lanes s = LoadSome(sine + i, n);
    StoreSome(Sub(Mul(a, c), Mul(b, s)), head + i, n);
    StoreSome(MulAdd(b, c, Mul(a, s)), head + half + i, n);
  });
}

// `angles` is room for 2 * half floats.
void QkNormRopeRow(const QkNormRopeArgs& args, size_t row, float* angles) {
  const size_t half = args.inv_freq.size();
  float* cosine = angles;
  float* sine = angles + half;
  for (size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(args.positions[row]) * args.inv_freq[i];
    cosine[i] = std::cos(angle) * args.rope_scale;
    sine[i] = std::sin(angle) * args.rope_scale;
  }
  const std::span<const float> in = args.in.Row(row);
  const std::span<float> out = args.out.Row(row);
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  for (size_t h = 0; h < args.heads; ++h) {
    float* head = out.data() + h * args.head_columns;
    if (!args.norm_weight.empty()) NormHeadSimd(head, args.norm_weight, args.epsilon);
    if (!args.interleaved) {
      RotateHeadSimd(head, half, cosine, sine);
      continue;
    }
    for (size_t i = 0; i < half; ++i) {
      const float a = head[2 * i];
      const float b = head[2 * i + 1];
      head[2 * i] = a * cosine[i] - b * sine[i];
      head[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(QkNormRopeRow);

void QkNormRopeSimd(const QkNormRopeArgs& args, Workspace& workspace) {
  CHECK(args.in.columns == args.heads * args.head_columns && args.out.columns == args.in.columns &&
        args.in.rows == args.out.rows && args.positions.size() == args.in.rows &&
        2 * args.inv_freq.size() <= args.head_columns);
  workspace.ReservePrivate(2 * args.inv_freq.size());
  workspace.threads().Run(args.in.rows, [&](size_t row, size_t thread) {
    HWY_DYNAMIC_DISPATCH(QkNormRopeRow)(args, row, workspace.Private(thread));
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
