#include "kernels/panel_product.h"

namespace weft::kernels {

void StorePanel(const PanelProduct& product, size_t panel, size_t row, const float* y) {
  const size_t at = panel * kPanelOutputs;
  const size_t first = product.weight.first_row, end = first + product.weight.rows;
  float* out = product.out + row * product.out_stride;
  if (at >= first && at + kPanelOutputs <= end) {
    out += at - first;
    const float* bias = product.bias == nullptr ? nullptr : product.bias + (at - first);
    for (size_t o = 0; o < kPanelOutputs; ++o) out[o] = bias == nullptr ? y[o] : y[o] + bias[o];
    return;
  }
  for (size_t o = 0; o < kPanelOutputs; ++o) {
    if (at + o < first || at + o >= end) continue;
    const size_t n = at + o - first;
    out[n] = product.bias == nullptr ? y[o] : y[o] + product.bias[n];
  }
}

}  // namespace weft::kernels
