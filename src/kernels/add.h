// out = a + b. `out` may be the rows of `a` or `b`.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct AddArgs {
  ConstRows a, b;  // [rows, columns]
  Rows out;        // [rows, columns]
};

void AddReference(const AddArgs& args, Workspace& workspace);
// In threads, where there are many rows.
void AddRows(const AddArgs& args, Workspace& workspace);

}  // namespace weft::kernels
