// The experts of a mixture-of-experts layer: out = sum over the row's experts, in the order of its
// route, of
//   weight * (down_e * activation(gate_e * in, up_e * in) + down_bias_e).
// Experts without a gate have only up rows, which take the gate's place, too.
// Each expert runs once over all rows that chose it; a row's sum does not depend on which rows
// those are.
#pragma once

#include "kernels/gated_activation.h"
#include "kernels/sum_grid.h"
#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct MoeExpertsArgs {
  ConstRows in;     // [rows, columns]
  ConstRows route;  // [rows, 2 * top_k], as MoeRoute writes it
  size_t top_k = 0;
  ActivationKind kind = ActivationKind::kSilu;
  // [experts] of [2 * width or width, columns]: gate rows, then up rows.
  std::span<const Matrix> gate_up;
  std::span<const Matrix> down;         // [experts] of [columns, width]
  std::span<const float> gate_up_bias;  // [experts, rows of gate_up], or empty
  std::span<const float> down_bias;     // [experts, columns], or empty
  Rows out;                             // [rows, columns]; must not overlap `in`
  SumGrid grid;                         // of every expert's output, before it is weighted
};

// The last part of it alone, for experts that were computed elsewhere: out = sum over a row's
// slots, in the order of its route, of weight * the slot's row. As MoeExperts sums, bit for bit.
struct SumSlotsArgs {
  ConstRows route;  // [rows, 2 * top_k]
  size_t top_k = 0;
  ConstRows slots;  // [rows * top_k, columns]
  Rows out;         // [rows, columns]
};

void MoeExpertsReference(const MoeExpertsArgs& args, Workspace& workspace);
void MoeExpertsSimd(const MoeExpertsArgs& args, Workspace& workspace);
void SumSlotsReference(const SumSlotsArgs& args, Workspace& workspace);
void SumSlotsSimd(const SumSlotsArgs& args, Workspace& workspace);

// Floats of Workspace::kExperts that MoeExpertsSimd needs.
constexpr size_t MoeExpertsScratchFloats(size_t rows, size_t top_k, size_t columns, size_t width) {
  // For each row and chosen expert: gate and up, the expert's output.
  return rows * top_k * (columns + 2 * width);
}

}  // namespace weft::kernels
