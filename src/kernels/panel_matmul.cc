#include "kernels/panel_matmul.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "kernels/panel_neon.h"
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

constexpr PanelKernel kKernels[] = {
#if defined(__x86_64__)
    {"amx", HasAmx, PrepareIntegersAvx2, RunAmx},
    {"avx512-vnni", HasVnni512, PrepareIntegersAvx2, RunVnni512},
    {"avx-vnni", HasVnni256, PrepareIntegersAvx2, RunVnni256},
    {"avx2", HasAvx2, PrepareIntegersAvx2, RunAvx2},
    {"ssse3", HasSsse3, PrepareIntegersSsse3, RunSsse3},
#elif defined(__aarch64__)
    {"neon-i8mm", HasNeonI8mm, PrepareIntegers, RunNeonI8mm},
    {"neon-dotprod", HasNeonDot, PrepareIntegers, RunNeonDot},
    {"neon", Everywhere, PrepareIntegers, RunNeon},
#endif
    {"scalar", Everywhere, PrepareIntegers, RunScalar},
};

std::atomic<const PanelKernel*> forced_kernel = nullptr;

std::string Names(bool here_only) {
  std::string names;
  for (const PanelKernel& kernel : kKernels) {
    if (here_only && !kernel.runs_here()) continue;
    names += (names.empty() ? "" : ", ") + std::string(kernel.name);
  }
  return names;
}

}  // namespace

std::span<const PanelKernel> PanelKernels() {
  return kKernels;
}

const PanelKernel& BestPanelKernel() {
  static const PanelKernel& best =
      *std::ranges::find_if(kKernels, [](const PanelKernel& kernel) { return kernel.runs_here(); });
  return best;
}

const PanelKernel& UsedPanelKernel() {
  const PanelKernel* forced = forced_kernel.load(std::memory_order_relaxed);
  return forced != nullptr ? *forced : BestPanelKernel();
}

Status UsePanelKernel(std::string_view name) {
  const auto* kernel = std::ranges::find(kKernels, name, &PanelKernel::name);
  if (kernel == std::end(kKernels)) {
    return Error(ErrorCode::kInvalidArgument, "There are no kernels named '" + std::string(name) +
                                                  "'. Expected one of: " + Names(false) + ".");
  }
  if (!kernel->runs_here()) {
    return Error(ErrorCode::kUnsupported, "This machine cannot run the kernels '" +
                                              std::string(name) + "'. It can run: " + Names(true) +
                                              ".");
  }
  forced_kernel = kernel;
  return OkStatus();
}

}  // namespace weft::kernels
