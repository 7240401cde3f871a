// The operation gate of ir.h as the end of another one, whose Op says where the gate lies. Its
// product is made as fma, so that no compiler contracts it with a sum behind it.
const kOneGate = 4u; // a bit of gate_kind (gate.ts): it has a single column

fn is_gated() -> bool {
  return op.gate_base != kNone;
}

fn gate_at(row: u32, column: u32) -> u32 {
  return op.gate_base + row * op.gate_stride + select(column, 0u, (op.gate_kind & kOneGate) != 0u);
}

fn through_gate(value: f32, gate: f32) -> f32 {
  var result = value;
  let kind = op.gate_kind & (kOneGate - 1u);
  if (kind != kGateSigmoid) {
    result = fma(result, gate, 0.0);
  }
  if (kind != kGateIdentity) {
    result = fma(result, sigmoid(gate), 0.0);
  }
  return result;
}
