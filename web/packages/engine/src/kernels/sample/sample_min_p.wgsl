// The mass of the tokens that min_p keeps: those with at least that share of the best one's weight.
var<workgroup> sum: array<atomic<u32>, 2>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) parts: vec3<u32>,
  @builtin(local_invocation_index) t: u32,
) {
  begin_row(workgroup.y);
  if (is_skipped(t, !has(kFlagMinP))) {
    return;
  }
  if (t < 2u) {
    atomicStore(&sum[t], 0u);
  }
  workgroupBarrier();
  let best = best_logit();
  let inverse_temperature = bitcast<f32>(word(kInverseTemperature));
  let least = bitcast<f32>(word(kMinP));
  let size = (op.vocabulary + parts.x - 1u) / parts.x;
  let end = min(op.vocabulary, (workgroup.x + 1u) * size);
  var mine = vec2(0u, 0u);
  for (var i = workgroup.x * size + t; i < end; i += 256u) {
    let logit = act[own_logits + i];
    if (!is_finite(logit)) {
      continue;
    }
    let weight = weight_of(logit, best, inverse_temperature);
    if (weight >= least) {
      mine = plus(mine, units_of(weight));
    }
  }
  let low = atomicAdd(&sum[0], mine.x);
  atomicAdd(&sum[1], mine.y + select(0u, 1u, low + mine.x < low));
  workgroupBarrier();
  if (t == 0u) {
    add_wide(kMinPMass, vec2(atomicLoad(&sum[0]), atomicLoad(&sum[1])));
  }
}
