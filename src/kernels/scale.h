// out = in * factor. `in` and `out` may be the same rows.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct ScaleArgs {
  ConstRows in;  // [rows, columns]
  float factor = 1;
  Rows out;  // [rows, columns]
};

void ScaleReference(const ScaleArgs& args, Workspace& workspace);

}  // namespace weft::kernels
