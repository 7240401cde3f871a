#include "kernels/q4s_matmul.h"

#include <algorithm>
#include <vector>

#include "kernels/q4s_x86.h"

namespace weft::kernels {
namespace {

bool Everywhere() {
  return true;
}

void RunScalar(const Q4sProduct& product, size_t first, size_t end) {
  const Matrix& weight = product.weight;
  std::vector<int8_t> weights(weight.columns);
  std::vector<float> scales(product.superblocks());
  for (size_t at = first * kPanelOutputs; at < end * kPanelOutputs; ++at) {
    if (at < weight.first_row || at >= weight.first_row + weight.rows) continue;
    const size_t n = at - weight.first_row;
    ReadQ4sRow(weight, n, weights, scales);
    for (size_t r = 0; r < product.rows; ++r) {
      const float y = Q4sDot(weights, scales, product.in + r * scales.size());
      product.out[r * product.out_stride + n] = product.bias == nullptr ? y : y + product.bias[n];
    }
  }
}

constexpr Q4sKernel kKernels[] = {
#if defined(__x86_64__)
    {"avx512-vnni", HasVnni512, PrepareQ4sRowAvx2, RunQ4sVnni512},
    {"avx2", HasAvx2, PrepareQ4sRowAvx2, RunQ4sAvx2},
#endif
    {"scalar", Everywhere, PrepareQ4sRow, RunScalar},
};

}  // namespace

std::span<const Q4sKernel> Q4sKernels() {
  return kKernels;
}

const Q4sKernel& BestQ4sKernel() {
  static const Q4sKernel& best = *std::ranges::find_if(kKernels, &Q4sKernel::runs_here);
  return best;
}

}  // namespace weft::kernels
