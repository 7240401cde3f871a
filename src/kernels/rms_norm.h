// RMS norm: out = in / sqrt(mean(in^2) + epsilon) * weight, row by row, or in each row group by
// group of neighbouring columns. `in` and `out` may be the same rows.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct RmsNormArgs {
  ConstRows in;                   // [rows, columns]
  std::span<const float> weight;  // [columns]
  float epsilon = 0;
  Rows out;           // [rows, columns]
  size_t groups = 1;  // of equal size
};

void RmsNormReference(const RmsNormArgs& args, Workspace& workspace);
void RmsNormSimd(const RmsNormArgs& args, Workspace& workspace);

}  // namespace weft::kernels
