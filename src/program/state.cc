#include "program/state.h"

namespace weft::program {

uint64_t StateFloats(const Program& program, const Op& op) {
  if (const auto* conv = std::get_if<CausalConv>(&op)) {
    return (program.weights[conv->weight].shape[1] - 1) * conv->in.columns;
  }
  if (const auto* delta = std::get_if<DeltaRule>(&op)) {
    return uint64_t{delta->value_heads} * delta->key_columns * delta->value_columns;
  }
  if (const auto* scan = std::get_if<SsmScan>(&op)) {
    return uint64_t{scan->heads} * scan->head_columns * scan->state_columns;
  }
  return 0;
}

uint64_t StateFloats(const Program& program) {
  uint64_t float_count = 0;
  for (const Op& op : program.ops) float_count += StateFloats(program, op);
  return float_count;
}

}  // namespace weft::program
