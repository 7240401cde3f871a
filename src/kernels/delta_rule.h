// The gated delta rule of Gated DeltaNet, row after row; formula: program/ir.h, DeltaRule.
// State: S of every value head, [value_heads, key_columns, value_columns].
#pragma once

#include "kernels/state_run.h"
#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct DeltaRuleArgs {
  ConstRows q, k;  // [rows, key_heads * key_columns]
  ConstRows v;     // [rows, value_heads * value_columns]
  ConstRows a, b;  // [rows, value_heads]
  size_t key_heads = 0, value_heads = 0;
  std::span<const float> decay, dt_bias;  // [value_heads]
  bool tiled = false;              // value head j reads key head j % key_heads, else j / group
  std::span<const StateRun> runs;  // all rows, each once
  Rows out;                        // [rows, value_heads * value_columns], apart from the inputs

  size_t key_columns() const { return q.columns / key_heads; }
  size_t value_columns() const { return v.columns / value_heads; }
  size_t KeyHead(size_t value_head) const {
    return tiled ? value_head % key_heads : value_head / (value_heads / key_heads);
  }
};

void DeltaRuleReference(const DeltaRuleArgs& args, Workspace& workspace);
void DeltaRuleSimd(const DeltaRuleArgs& args, Workspace& workspace);

}  // namespace weft::kernels
