// The inputs of a product of several rows as integers (blocks_planes.wgsl tells where), made as
// the kernel for one row makes them, so that the bits are the same. A workgroup has a row and a
// thread has a class, whose squares for the norm in front it adds in the order of that kernel, too.
// With kByHead a row has an input for each head.
@group(0) @binding(7) var<storage, read_write> planes: array<vec2<u32>>;

var<workgroup> class_squares: array<vec4<f32>, kClasses>;

@compute @workgroup_size(kClasses)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.x;
  own_head = workgroup.y;
  let base = in_base() + row * op.in_stride;
  let pairs = (op.blocks + 1u) >> 1u;
  let first = 2u * planes_of_row(row);
  var sums = vec4<f32>(0.0);
  for (var b = t; b < op.blocks; b += kClasses) {
    sums = with_squares(base, b, sums);
    let x = prepared(input_piece(base, 4u * b), input_piece(base, 4u * b + 1u),
                     input_piece(base, 4u * b + 2u), input_piece(base, 4u * b + 3u));
    let at = first + 8u * b;
    planes[at] = x.low_a.xy;
    planes[at + 1u] = x.low_a.zw;
    planes[at + 2u] = x.low_b.xy;
    planes[at + 3u] = x.low_b.zw;
    planes[at + 4u] = x.high_a.xy;
    planes[at + 5u] = x.high_a.zw;
    planes[at + 6u] = x.high_b.xy;
    planes[at + 7u] = x.high_b.zw;
    planes[first + 8u * op.blocks + b] = bitcast<vec2<u32>>(vec2(x.sum, x.scale));
  }
  if (!kWithNorm) {
    return;
  }
  class_squares[t] = sums;
  workgroupBarrier();
  if (t == 0u) {
    var total = 0.0;
    for (var c = 0u; c < kClasses; c++) {
      let own = class_squares[c];
      total = total + ((own.x + own.y) + (own.z + own.w));
    }
    let inverse = 1.0 / sqrt(total / f32(op.columns) + op.epsilon);
    planes[first + 8u * op.blocks + 2u * pairs] = vec2(bitcast<u32>(inverse), 0u);
  }
}
