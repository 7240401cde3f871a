// The activations of gated MLPs with vectors (gated_activation.h), one row after another.
#include "kernels/gated_activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gated_activation_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE Lanes GeluTanh(const Lanes& x) {
  const Lanes root = Splat(static_cast<float>(0.7978845608028654));  // sqrt(2 / pi)
  const Lanes cube = Mul(Mul(x, x), x);
  const Lanes inner = Mul(root, MulAdd(Splat(0.044715f), cube, x));
  return Mul(Mul(Splat(0.5f), x), Add(Splat(1), Tanh(inner)));
}

// There is no vector erf; few models use this form.
HWY_INLINE Lanes Gelu(const Lanes& x) {
  alignas(64) float values[kLanes];
  StoreLanes(x, values);
  for (float& v : values) {
    v = 0.5f * v * (1 + std::erf(v * static_cast<float>(1 / std::numbers::sqrt2)));
  }
  return LoadLanes(values);
}

HWY_INLINE Lanes SwigluOai(const Lanes& gate, const Lanes& up) {
  const Lanes g = Min(Splat(7), gate);
  const Lanes u = Max(Splat(-7), Min(Splat(7), up));
  return Mul(Mul(g, Sigmoid(Mul(Splat(1.702f), g))), Add(u, Splat(1)));
}

void ActivatePart(ActivationKind kind, std::span<const float> gates, const float* ups, float* out) {
  ForLanes(gates.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes gate = LoadSome(gates.data() + i, n);
    const Lanes up = LoadSome(ups + i, n);
    Lanes result;
    switch (kind) {
      case ActivationKind::kSilu:
        result = Mul(Mul(gate, Sigmoid(gate)), up);
        break;
      case ActivationKind::kGeluTanh:
        result = Mul(GeluTanh(gate), up);
        break;
      case ActivationKind::kGelu:
        result = Mul(Gelu(gate), up);
        break;
      case ActivationKind::kSwigluOai:
        result = SwigluOai(gate, up);
        break;
      case ActivationKind::kRelu:
        result = Mul(Max(Splat(0), gate), up);
        break;
    }
    StoreSome(result, out + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(ActivatePart);

void GatedActivationSimd(const GatedActivationArgs& args, Workspace& workspace) {
  CHECK(args.gate.rows == args.out.rows && args.up.rows == args.out.rows &&
        args.gate.columns == args.out.columns && args.up.columns == args.out.columns &&
        args.kind <= ActivationKind::kRelu);
  constexpr size_t kPart = 2048;
  const size_t parts = (args.out.columns + kPart - 1) / kPart;
  workspace.threads().Run(args.out.rows * parts, [&](size_t task, size_t) {
    const size_t row = task / parts;
    const size_t first = task % parts * kPart;
    const size_t count = std::min(kPart, args.out.columns - first);
    HWY_DYNAMIC_DISPATCH(ActivatePart)
    (args.kind, args.gate.Row(row).subspan(first, count), args.up.Row(row).data() + first,
     args.out.Row(row).data() + first);
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
