// The last kernel of a stage: counts the values of the residual stream that are not finite into
// counts[0] and, where asked, packs its rows as they cross the wire. The values were rounded to
// that type when they were written, so packing is exact. `act` as words: a pair of halves is no
// f32.
@group(0) @binding(1) var<uniform> op: Op;
@group(0) @binding(2) var<storage, read_write> act: array<u32>;
@group(0) @binding(7) var<storage, read_write> counts: array<atomic<u32>>;

fn half_of(bits: u32) -> u32 {
  if (op.packed_kind == kRoundingBf16) {
    return bits >> 16u;
  }
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) {
    return sign | (bitcast<u32>(bitcast<f32>(magnitude) + 0.5) - 0x3f000000u);
  }
  return sign | ((magnitude - 0x38000000u) >> 13u);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  var bad = 0u;
  let row = op.rows_base + workgroup.y * op.rows_stride;
  for (var k = 2u * t; k < op.columns; k += 128u) {
    let low = act[row + k];
    let high = select(0u, act[row + k + 1u], k + 1u < op.columns);
    bad += select(0u, 1u, (low & 0x7f800000u) == 0x7f800000u);
    bad += select(0u, 1u, (high & 0x7f800000u) == 0x7f800000u);
    if (op.packed_base != kNone) {
      let word = op.packed_base + workgroup.y * op.packed_stride + (k >> 1u);
      act[word] = half_of(low) | (half_of(high) << 16u);
    }
  }
  if (bad > 0u) {
    atomicAdd(&counts[0], bad);
  }
}
