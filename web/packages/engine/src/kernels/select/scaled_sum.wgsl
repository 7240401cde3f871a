// Parts of the sum of exp((logit - best) / temperature) of a row, over stretches of the vocabulary:
// what candidates lack to tell how much probability lies beyond them. Behind argmax.wgsl, which has
// found the best logit.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.y;
  let part = workgroup.x;
  let best = bitcast<f32>(aux[op.result_at + row * op.result_stride + 1u]);
  let scale = bitcast<f32>(step[step[kStepScalesBegin] + row]);
  let logits = op.logits_base + row * op.logits_stride;
  let size = (op.vocabulary + op.stretches - 1u) / op.stretches;
  let end = min(op.vocabulary, (part + 1u) * size);
  var sum = 0.0;
  for (var i = part * size + t; i < end; i += 256u) {
    sum = sum + exp((act[logits + i] - best) * scale);
  }
  let total = sum_of_threads(t, sum);
  if (t == 0u) {
    aux[op.out_at + row * op.stretches + part] = bitcast<u32>(total);
  }
}
