// Mamba2's selective scan, row after row; formula: program/ir.h, SsmScan.
// State: [heads, state_columns, head_columns].
#pragma once

#include "kernels/state_run.h"
#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct SsmScanArgs {
  ConstRows x;     // [rows, heads * head_columns]
  ConstRows b, c;  // [rows, groups * state_columns]
  ConstRows dt;    // [rows, heads]
  size_t heads = 0, groups = 0;
  std::span<const float> decay, dt_bias, skip;  // [heads]
  float dt_min = 0, dt_max = 0;                 // dt_max 0: no upper limit
  std::span<const StateRun> runs;               // all rows, each once
  Rows out;                                     // [rows, heads * head_columns], apart from x

  size_t head_columns() const { return x.columns / heads; }
  size_t state_columns() const { return b.columns / groups; }
  size_t Group(size_t head) const { return head / (heads / groups); }
  double TimeStep(size_t row, size_t head) const {
    const double step = std::fmax(Softplus(dt.Row(row)[head] + dt_bias[head]), dt_min);
    return dt_max > 0 ? std::fmin(step, dt_max) : step;
  }
};

void SsmScanReference(const SsmScanArgs& args, Workspace& workspace);
void SsmScanSimd(const SsmScanArgs& args, Workspace& workspace);

}  // namespace weft::kernels
