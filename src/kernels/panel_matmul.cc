#include "kernels/panel_matmul.h"

#include <algorithm>

#include "kernels/panel_x86.h"
#include "kernels/superblock_row.h"

namespace weft::kernels {
namespace {

bool Everywhere() {
  return true;
}

void RunScalar(const PanelProduct& product, size_t first, size_t end) {
  const Matrix& weight = product.weight;
  SuperblockRow weights(weight);
  for (size_t at = first * kPanelOutputs; at < end * kPanelOutputs; ++at) {
    if (at < weight.first_row || at >= weight.first_row + weight.rows) continue;
    const size_t n = at - weight.first_row;
    weights.Read(n);
    for (size_t r = 0; r < product.rows; ++r) {
      const float y = weights.Dot(product.in + r * weights.count());
      product.out[r * product.out_stride + n] = product.bias == nullptr ? y : y + product.bias[n];
    }
  }
}

#if defined(__x86_64__)
void RunAvx2(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return RunKQuantAvx2(product, first, end);
  RunQ4sAvx2(product, first, end);
}
#endif

constexpr PanelKernel kKernels[] = {
#if defined(__x86_64__)
    {"avx512-vnni", HasVnni512, PrepareIntegersAvx2, RunVnni512},
    {"avx-vnni", HasVnni256, PrepareIntegersAvx2, RunVnni256},
    {"avx2", HasAvx2, PrepareIntegersAvx2, RunAvx2},
#endif
    {"scalar", Everywhere, PrepareIntegers, RunScalar},
};

}  // namespace

std::span<const PanelKernel> PanelKernels() {
  return kKernels;
}

const PanelKernel& BestPanelKernel() {
  static const PanelKernel& best = *std::ranges::find_if(
      kKernels, [](const PanelKernel& kernel) { return kernel.runs_here(); });
  return best;
}

}  // namespace weft::kernels
