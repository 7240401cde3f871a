// The gate of a gated feed-forward layer: out = activation(gate) * up. `out` may be the rows of
// `gate` or `up`, and those may be the same.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

// The values are program::Activation's.
enum class ActivationKind : uint32_t {
  kSilu = 0,       // gate * sigmoid(gate) * up
  kGeluTanh = 1,   // gelu(gate), tanh form, * up
  kGelu = 2,       // gelu(gate), erf form, * up
  kSwigluOai = 3,  // gate <= 7, |up| <= 7: gate * sigmoid(1.702 gate) * (up + 1)
  kRelu = 4,       // max(gate, 0) * up
};

struct GatedActivationArgs {
  ConstRows gate, up;  // [rows, columns]
  ActivationKind kind = ActivationKind::kSilu;
  Rows out;  // [rows, columns]
};

void GatedActivationReference(const GatedActivationArgs& args, Workspace& workspace);
void GatedActivationSimd(const GatedActivationArgs& args, Workspace& workspace);

}  // namespace weft::kernels
