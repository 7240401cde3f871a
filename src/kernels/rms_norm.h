// RMS norm: out = in / sqrt(mean(in^2) + epsilon) * weight, row by row. `in` and `out` may be the
// same rows.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct RmsNormArgs {
  ConstRows in;                   // [rows, columns]
  std::span<const float> weight;  // [columns]
  float epsilon = 0;
  Rows out;  // [rows, columns]
};

void RmsNormReference(const RmsNormArgs& args, Workspace& workspace);
void RmsNormSimd(const RmsNormArgs& args, Workspace& workspace);

}  // namespace weft::kernels
