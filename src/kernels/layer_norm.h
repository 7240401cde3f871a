// Layer norm: out = (in - mean) / sqrt(variance + epsilon) * weight + bias, row by row. `in` and
// `out` may be the same rows.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct LayerNormArgs {
  ConstRows in;                   // [rows, columns]
  std::span<const float> weight;  // [columns]
  std::span<const float> bias;    // [columns], or empty
  float epsilon = 0;
  Rows out;  // [rows, columns]
};

void LayerNormReference(const LayerNormArgs& args, Workspace& workspace);
void LayerNormSimd(const LayerNormArgs& args, Workspace& workspace);

}  // namespace weft::kernels
