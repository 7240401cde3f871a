// Biases and penalties, in place, before the best token is looked for: the formula and the order of
// sampling/penalize.ts.
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  begin_row(id.y);
  if (i >= op.vocabulary || !has(kFlagChanges)) {
    return;
  }
  let count = word(kStateWords + i);
  let bias = bitcast<f32>(word(kStateWords + op.vocabulary + i));
  if (count == 0u && bias == 0.0) {
    return;
  }
  var logit = act[own_logits + i] + bias;
  if (count > 0u) {
    let repetition = bitcast<f32>(word(kRepetition));
    logit = select(logit * repetition, logit / repetition, logit > 0.0);
    logit -= bitcast<f32>(word(kPresence)) + bitcast<f32>(word(kFrequency)) * f32(count);
  }
  act[own_logits + i] = logit;
}
