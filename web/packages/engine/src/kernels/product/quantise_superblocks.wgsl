// The inputs of a product of superblocks as integers of 16 bits (prepare_int16.wgsl;
// planes_superblocks.wgsl tells where), with one scale for 256 columns. A workgroup has a row, or
// the input of one of its heads, and a thread has a block of 32 columns; eight threads share the
// largest of their superblock. An input that is not finite makes its superblock's scale NaN.
@group(0) @binding(7) var<storage, read_write> planes: array<vec2<u32>>;

const kThreads = 128u;

var<workgroup> largest: array<u32, kThreads>;
var<workgroup> block_squares: array<f32, kThreads>;

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

// Of the superblock whose blocks begin with that of thread `t`.
fn superblock_squares(t: u32) -> f32 {
  let a = block_squares[t] + block_squares[t + 1u];
  let b = block_squares[t + 2u] + block_squares[t + 3u];
  let c = block_squares[t + 4u] + block_squares[t + 5u];
  let d = block_squares[t + 6u] + block_squares[t + 7u];
  return (a + b) + (c + d);
}

@compute @workgroup_size(kThreads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  own_head = workgroup.y;
  let base = in_base() + workgroup.x * op.in_stride;
  let first = 2u * planes_of_row(workgroup.x);
  var total = 0.0;  // of squares, in the first thread
  for (var begin = 0u; begin < op.blocks; begin += kThreads) {
    let b = begin + t;
    var x: array<Eight, 4>;
    var most = 0u;
    var sums = vec4<f32>(0.0);
    if (b < op.blocks) {
      for (var i = 0u; i < 4u; i++) {
        x[i] = input_piece(base, 4u * b + i);
        most = max(most, magnitude_of(x[i]));
        sums[i] = squares_of_piece(base, 4u * b + i);
      }
    }
    largest[t] = most;
    block_squares[t] = (sums.x + sums.y) + (sums.z + sums.w);
    workgroupBarrier();
    var bits = 0u;
    for (var i = 0u; i < 8u; i++) {
      bits = max(bits, largest[(t & ~7u) + i]);
    }
    if (b < op.blocks) {
      var pieces: array<Piece, 4>;
      for (var i = 0u; i < 4u; i++) {
        pieces[i] = piece_of(x[i], exponent_of_bits(bits));
      }
      store_block(first, b, pieces);
      if ((b & 7u) == 0u) {
        planes[2u * scales_at(first >> 1u) + (b >> 3u)] =
          vec2(bitcast<u32>(scale_of_bits(bits)), 0u);
      }
    }
    if (kWithNorm && t == 0u) {
      for (var i = 0u; i < kThreads && begin + i < op.blocks; i += 8u) {
        total = total + superblock_squares(i);
      }
    }
    workgroupBarrier();
  }
  if (kWithNorm && t == 0u) {
    let inverse = 1.0 / sqrt(total / f32(op.columns) + op.epsilon);
    planes[2u * inverse_at(first >> 1u)] = vec2(bitcast<u32>(inverse), 0u);
  }
}
