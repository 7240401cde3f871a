// One level of a search among the sorted tokens: how many tokens with the prefix that was found,
// and what mass of them, each of 256 values of the key's next byte has. Level 0 serves all searches
// of a token.
var<workgroup> bins: array<atomic<u32>, 256u * kBinWords>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) parts: vec3<u32>,
  @builtin(local_invocation_index) t: u32,
) {
  begin_row(workgroup.y);
  let is_searched = op.level == 0u || asks_for(op.purpose);
  if (is_skipped(t, has(kFlagGreedy) || !is_searched)) {
    return;
  }
  for (var i = t; i < 256u * kBinWords; i += 256u) {
    atomicStore(&bins[i], 0u);
  }
  workgroupBarrier();
  let best = best_logit();
  let inverse_temperature = bitcast<f32>(word(kInverseTemperature));
  let shift = 24u - 8u * op.level;
  let prefix = word(kPrefix);
  let size = (op.vocabulary + parts.x - 1u) / parts.x;
  let end = min(op.vocabulary, (workgroup.x + 1u) * size);
  for (var i = workgroup.x * size + t; i < end; i += 256u) {
    let logit = act[own_logits + i];
    let key = key_of(logit);
    let is_here = op.level == 0u || ((key ^ prefix) >> min(shift + 8u, 31u)) == 0u;
    if (!is_finite(logit) || !is_here) {
      continue;
    }
    let units = units_of(weight_of(logit, best, inverse_temperature));
    let bin = kBinWords * ((key >> shift) & 255u);
    atomicAdd(&bins[bin], 1u);
    let low = atomicAdd(&bins[bin + 1u], units.x);
    atomicAdd(&bins[bin + 2u], units.y + select(0u, 1u, low + units.x < low));
    if (op.level == 3u) {  // all tokens of the bin have the same logit
      atomicStore(&bins[bin + 3u], units.x);
      atomicStore(&bins[bin + 4u], units.y);
      atomicMax(&bins[bin + 5u], ~i);
    }
  }
  workgroupBarrier();
  let own = kBinWords * t;
  let count = atomicLoad(&bins[own]);
  if (count == 0u) {
    return;
  }
  let out = kBins + select(256u * kBinWords, 0u, op.level == 0u) + own;
  atomicAdd(&aux[own_sampler + out], count);
  add_wide(out + 1u, vec2(atomicLoad(&bins[own + 1u]), atomicLoad(&bins[own + 2u])));
  if (op.level == 3u) {
    put(out + 3u, atomicLoad(&bins[own + 3u]));
    put(out + 4u, atomicLoad(&bins[own + 4u]));
    atomicMax(&aux[own_sampler + out + 5u], atomicLoad(&bins[own + 5u]));
  }
}
