// Soft caps with vectors (softcap.h).
#include "kernels/softcap.h"

#include <algorithm>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softcap_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

void SoftcapPart(std::span<const float> in, float cap, float* out) {
  const Lanes caps = Splat(cap);
  ForLanes(in.size(), [&](size_t i, size_t n) HWY_ATTR {
    const Lanes ratio = Div(LoadSome(in.data() + i, n), caps);
    StoreSome(Mul(caps, Tanh(ratio)), out + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(SoftcapPart);

void SoftcapSimd(const SoftcapArgs& args, Workspace& workspace) {
  CHECK(args.in.rows == args.out.rows && args.in.columns == args.out.columns);
  // Rows are as wide as a vocabulary: a task is a piece of a row.
  constexpr size_t kPart = 8192;
  const size_t parts = (args.in.columns + kPart - 1) / kPart;
  workspace.threads().Run(args.in.rows * parts, [&](size_t task, size_t) {
    const size_t first = task % parts * kPart;
    const auto in = args.in.Row(task / parts).subspan(first);
    HWY_DYNAMIC_DISPATCH(SoftcapPart)
    (in.first(std::min(kPart, in.size())), args.cap, args.out.Row(task / parts).data() + first);
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
