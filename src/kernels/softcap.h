// out = cap * tanh(in / cap). `in` and `out` may be the same rows.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct SoftcapArgs {
  ConstRows in;  // [rows, columns]
  float cap = 0;
  Rows out;  // [rows, columns]
};

void SoftcapReference(const SoftcapArgs& args, Workspace& workspace);
void SoftcapSimd(const SoftcapArgs& args, Workspace& workspace);

}  // namespace weft::kernels
