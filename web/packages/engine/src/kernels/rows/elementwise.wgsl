// Operations on single elements: add, scale, softcap, gated activation, copy, and the gathering of
// the rows that the head takes. One element a thread.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y;
  let column = id.x;
  if (column >= op.columns) {
    return;
  }
  var source_row = row;
  if (op.kind == kElementwiseGather) {
    source_row = row_source(row);
  }
  let a = act[op.a_base + source_row * op.a_stride + column];
  var result = a;
  switch (op.kind) {
    case kElementwiseAdd: {
      result = a + act[op.b_base + row * op.b_stride + column];
    }
    case kElementwiseScale: {
      result = a * op.value;
    }
    case kElementwiseSoftcap: {
      result = op.value * tanh_of(a / op.value);
    }
    case kElementwiseGated: {
      result = gated(a, act[op.b_base + row * op.b_stride + column], op.activation);
    }
    case kElementwiseGateIdentity, kElementwiseGateSigmoid, kElementwiseGateSilu: {
      let gate = act[op.b_base + row * op.b_stride + select(column, 0u, op.is_one_gate != 0u)];
      if (op.kind != kElementwiseGateSigmoid) {
        result = result * gate;
      }
      if (op.kind != kElementwiseGateIdentity) {
        result = result * sigmoid(gate);
      }
    }
    default: {
    }
  }
  act[op.out_base + row * op.out_stride + column] = round_value(result, op.round_kind);
}
