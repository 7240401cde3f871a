// Sixteen columns of a head's state between memory and a kernel's own array, [rows][kLanes].
// Included once per target, inside Highway's dispatch.
#if defined(WEFT_KERNELS_STATE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_STATE_LANES_INL_H_
#undef WEFT_KERNELS_STATE_LANES_INL_H_
#else
#define WEFT_KERNELS_STATE_LANES_INL_H_
#endif

#include "kernels/lanes-inl.h"
#include "kernels/state_run.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Where in the state of a run the columns lie: `n` of them from value `at` on, in each of `rows`
// rows of `stride` values.
struct StateColumns {
  size_t at = 0, stride = 0, rows = 0, n = 0;
};

HWY_INLINE void LoadState(const StateRun& run, const StateColumns& columns, float* state) {
  const float* before = run.before;
  for (size_t i = 0; i < columns.rows; ++i) {
    StoreLanes(before == nullptr ? Splat(0)
                                 : LoadSome(before + columns.at + i * columns.stride, columns.n),
               state + i * kLanes);
  }
}

HWY_INLINE void KeepState(const StateRun& run, const StateColumns& columns, const float* state) {
  for (size_t i = 0; i < columns.rows; ++i) {
    StoreSome(LoadLanes(state + i * kLanes), run.after + columns.at + i * columns.stride,
              columns.n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
