// values = the nearest values of `dtype`, still as f32. Ties go to even, too large ones become
// infinite, and not-a-number stays one. This is what a trip over the wire in that type leaves of
// them.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct RoundArgs {
  Rows values;                // [rows, columns]
  DType dtype = DType::kF32;  // kF32 (nothing to do), kF16 or kBF16
};

void RoundReference(const RoundArgs& args, Workspace& workspace);
void RoundSimd(const RoundArgs& args, Workspace& workspace);

}  // namespace weft::kernels
