// The inputs of a product of several rows as integers (inputs_planes.wgsl reads them), made as the
// kernel for one row makes them, so that the bits are the same. A row a workgroup.
const kOutputs = 16u;
const kStride = kOutputs + 1u;
const kTileRows = 1u;

@group(0) @binding(7) var<storage, read_write> planes: array<vec2<u32>>;

var<workgroup> lane_sums: array<f32, kParts * kStride>;

@compute @workgroup_size(32u * kParts)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.x;
  let pieces = 4u * op.blocks;
  let first = 2u * (op.planes_base + row * (6u * op.blocks + 1u));
  for (var p = t; p < pieces; p += 32u * kParts) {
    let input = input_piece(0u, row, p);
    planes[first + 2u * p] = input.low;
    planes[first + 2u * p + 1u] = input.high;
    planes[first + 2u * pieces + p] = vec2(bitcast<u32>(input.sum), bitcast<u32>(input.scale));
  }
  close_inputs(t);
  workgroupBarrier();
  if (t == 0u) {
    planes[first + 3u * pieces] = vec2(bitcast<u32>(inverse_rms(0u, row)), 0u);
  }
}
