// A gate over what a layer computed: out = in * f(gate). `out` may be the rows of `in` or `gate`
// where they have the same columns.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

// The values are program::GateKind's.
enum class GateKind : uint32_t { kIdentity = 0, kSigmoid = 1, kSilu = 2 };

struct GateArgs {
  ConstRows in;    // [rows, columns]
  ConstRows gate;  // [rows, columns], or [rows, 1]: one factor a row
  GateKind kind = GateKind::kSigmoid;
  Rows out;  // [rows, columns]
};

void GateReference(const GateArgs& args, Workspace& workspace);
void GateSimd(const GateArgs& args, Workspace& workspace);

}  // namespace weft::kernels
