// Rows as they came over the wire (halves without gaps) into the residual stream. Counts those that
// are not finite into counts[1].
@group(0) @binding(1) var<uniform> op: Op;
@group(0) @binding(2) var<storage, read_write> act: array<u32>;
@group(0) @binding(7) var<storage, read_write> counts: array<atomic<u32>>;

// Bits of the f32.
fn widened(half: u32) -> u32 {
  if (op.kind == kRoundingBf16) {
    return half << 16u;
  }
  let sign = (half & 0x8000u) << 16u;
  let exponent = (half >> 10u) & 0x1fu;
  let fraction = half & 0x3ffu;
  if (exponent == 31u) {
    return sign | 0x7f800000u | (fraction << 13u);
  }
  if (exponent == 0u) {
    return sign | bitcast<u32>(f32(fraction) * 5.9604644775390625e-8);
  }
  return sign | ((exponent + 112u) << 23u) | (fraction << 13u);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let k = id.x;
  if (k >= op.columns) {
    return;
  }
  let at = id.y * op.columns + k;
  let bits = widened((act[op.packed_base + (at >> 1u)] >> (16u * (at & 1u))) & 0xffffu);
  act[op.out_base + id.y * op.out_stride + k] = bits;
  if ((bits & 0x7f800000u) == 0x7f800000u) {
    atomicAdd(&counts[1], 1u);
  }
}
