// Gates with vectors (gate.h), one row after another.
#include "kernels/gate.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gate_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE Lanes Factor(GateKind kind, const Lanes& gate) {
  if (kind == GateKind::kIdentity) return gate;
  return kind == GateKind::kSigmoid ? Sigmoid(gate) : Mul(gate, Sigmoid(gate));
}

void GatePart(GateKind kind, std::span<const float> in, const float* gate, bool one_gate,
              float* out) {
  const Lanes whole = one_gate ? Factor(kind, Splat(*gate)) : Splat(0);
  ForLanes(in.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes factor = one_gate ? whole : Factor(kind, LoadSome(gate + i, n));
    StoreSome(Mul(LoadSome(in.data() + i, n), factor), out + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(GatePart);

void GateSimd(const GateArgs& args, Workspace& workspace) {
  const bool one_gate = args.gate.columns == 1 && args.out.columns != 1;
  CHECK(args.in.rows == args.out.rows && args.gate.rows == args.out.rows &&
        args.in.columns == args.out.columns && (one_gate || args.gate.columns == args.out.columns));
  constexpr size_t kPart = 2048;
  const size_t parts = (args.out.columns + kPart - 1) / kPart;
  workspace.threads().Run(args.out.rows * parts, [&](size_t task, size_t) {
    const size_t row = task / parts, first = task % parts * kPart;
    const size_t count = std::min(kPart, args.out.columns - first);
    HWY_DYNAMIC_DISPATCH(GatePart)
    (args.kind, args.in.Row(row).subspan(first, count),
     args.gate.Row(row).data() + (one_gate ? 0 : first), one_gate,
     args.out.Row(row).data() + first);
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
