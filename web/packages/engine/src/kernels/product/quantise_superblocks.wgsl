// The inputs of a product of superblocks as integers of 16 bits (prepare_int16.wgsl;
// planes_superblocks.wgsl tells where), with one scale for 256 columns. A workgroup has a row, or
// the input of one of its heads, and a thread has a block of 32 columns; eight threads share the
// largest of their superblock. An input that is not finite makes its superblock's scale NaN.
@group(0) @binding(7) var<storage, read_write> planes: array<vec2<u32>>;

const kThreads = 128u;
const kNotFinite = 0x7f800000u;  // bits of a magnitude from here on

var<workgroup> largest: array<u32, kThreads>;
var<workgroup> squares_of: array<f32, kThreads>;

// The bits of the largest magnitude. As whole numbers, so that what is not finite is the largest.
fn magnitude_of(x: Eight) -> u32 {
  let most = max(bitcast<vec4<u32>>(abs(x.low)), bitcast<vec4<u32>>(abs(x.high)));
  return max(max(most.x, most.y), max(most.z, most.w));
}

fn store_block(first: u32, b: u32, pieces: array<Piece, 4>) {
  var x = pieces;
  let at = first + 8u * b;
  for (var i = 0u; i < 4u; i++) {
    planes[at + i] = x[i].low;
    planes[at + 4u + i] = x[i].high;
  }
  let sums = vec2<i32>(i32(x[0].sum + x[1].sum), i32(x[2].sum + x[3].sum));
  planes[2u * sums_at(first >> 1u) + b] = bitcast<vec2<u32>>(sums);
}

@compute @workgroup_size(kThreads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  own_head = workgroup.y;
  let base = in_base() + workgroup.x * op.in_stride;
  let first = 2u * planes_of_row(workgroup.x);
  for (var begin = 0u; begin < op.blocks; begin += kThreads) {
    let b = begin + t;
    var x: array<Eight, 4>;
    var most = 0u;
    if (b < op.blocks) {
      for (var i = 0u; i < 4u; i++) {
        x[i] = input_piece(base, 4u * b + i);
        most = max(most, magnitude_of(x[i]));
        add_squares(base, 4u * b + i);
      }
    }
    largest[t] = most;
    workgroupBarrier();
    var bits = 0u;
    for (var i = 0u; i < 8u; i++) {
      bits = max(bits, largest[(t & ~7u) + i]);
    }
    let exponent = clamp(bits >> 23u, 40u, 254u);
    if (b < op.blocks) {
      var pieces: array<Piece, 4>;
      for (var i = 0u; i < 4u; i++) {
        pieces[i] = piece_of(x[i], exponent);
      }
      store_block(first, b, pieces);
      if ((b & 7u) == 0u) {
        let scale = bitcast<u32>(bitcast<f32>((exponent - 14u) << 23u) * kInverseHeadroom);
        planes[2u * scales_at(first >> 1u) + (b >> 3u)] =
          vec2(select(scale, 0x7fc00000u, bits >= kNotFinite), 0u);
      }
    }
    workgroupBarrier();
  }
  if (!kWithNorm) {
    return;
  }
  squares_of[t] = squares;
  workgroupBarrier();
  if (t == 0u) {
    var total = 0.0;
    for (var i = 0u; i < min(kThreads, op.blocks); i++) {
      total = total + squares_of[i];
    }
    let inverse = 1.0 / sqrt(total / f32(op.columns) + op.epsilon);
    planes[2u * inverse_at(first >> 1u)] = vec2(bitcast<u32>(inverse), 0u);
  }
}
