// The operations rms_norm and layer_norm, a row a workgroup, or one of its groups of columns. Norms
// of whole rows in front of products are not among them: the products make those by themselves.
// What a norm is added to, and what the sum is multiplied by, belongs to it:
//
//   out[k] = round(factor * (residual[k] + norm(in)[k]))
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let first = workgroup.x * op.columns;
  let weight = op.weight + first;
  let input = op.in_base + workgroup.y * op.in_stride + first;
  let out = op.out_base + workgroup.y * op.out_stride + first;
  let count = f32(op.columns);
  var mean = 0.0;
  if (op.is_layer_norm == 1u) {
    var sum = 0.0;
    for (var k = t; k < op.columns; k += 256u) {
      sum = sum + act[input + k];
    }
    mean = sum_of_threads(t, sum) / count;
  }
  var squares = 0.0;
  for (var k = t; k < op.columns; k += 256u) {
    let x = act[input + k] - mean;
    squares = fma(x, x, squares);
  }
  let inverse = 1.0 / sqrt(sum_of_threads(t, squares) / count + op.epsilon);
  for (var k = t; k < op.columns; k += 256u) {
    var value = (act[input + k] - mean) * inverse * vectors[weight + k];
    if (op.bias != kNone) {
      value = value + vectors[op.bias + k];
    }
    if (op.residual_base != kNone) {
      value = act[op.residual_base + workgroup.y * op.residual_stride + first + k] + value;
    }
    act[out + k] = round_value(value * op.factor, op.round_kind);
  }
}
