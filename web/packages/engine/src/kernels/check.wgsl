// Counts the values of the residual stream that are not finite into aux[0].
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<uniform> op: Op;
@group(0) @binding(2) var<storage, read_write> act: array<f32>;
@group(0) @binding(7) var<storage, read_write> counts: array<atomic<u32>>;

struct Op {
  rows_at: u32,
  base: u32,
  stride: u32,
  columns: u32,
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  var bad = 0u;
  for (var k = t; k < op.columns; k += 64u) {
    let bits = bitcast<u32>(act[op.base + workgroup.y * op.stride + k]);
    bad += select(0u, 1u, (bits & 0x7f800000u) == 0x7f800000u);
  }
  if (bad > 0u) {
    atomicAdd(&counts[0], bad);
  }
}
