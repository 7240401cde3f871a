// Threads share a row's input through workgroup memory: the bits of own_subgroups.wgsl.
var<workgroup> own_magnitudes: array<u32, 128>;
var<workgroup> own_piece_squares: array<f32, 128>;
var<workgroup> own_words: array<vec4<u32>, 128>;
var<workgroup> own_sums: array<i32, 128>;

// Neighbours, then neighbours of those: the order in which shuffles add 32 lanes.
fn squares_of_superblock(first: u32) -> f32 {
  var sums: array<f32, 16>;
  for (var i = 0u; i < 16u; i++) {
    sums[i] = own_piece_squares[first + 2u * i] + own_piece_squares[first + 2u * i + 1u];
  }
  for (var count = 8u; count > 0u; count /= 2u) {
    for (var i = 0u; i < count; i++) {
      sums[i] = sums[2u * i] + sums[2u * i + 1u];
    }
  }
  return sums[0];
}

fn block_inputs(base: u32, b: u32, t: u32) -> BlockInputs {
  var x = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
  own_piece_squares[t] = 0.0;
  if (b < op.blocks) {
    x = input_piece(base, 4u * b + (t & 3u));
    own_piece_squares[t] = squares_of_piece(base, 4u * b + (t & 3u));
  }
  own_magnitudes[t] = magnitude_of(x);
  workgroupBarrier();
  var bits = 0u;
  for (var i = 0u; i < 32u; i++) {
    bits = max(bits, own_magnitudes[(t & ~31u) + i]);
  }
  let own = piece_of(x, exponent_of_bits(bits));
  own_words[t] = vec4(own.low, own.high);
  own_sums[t] = i32(own.sum);
  if ((t & 31u) == 0u) {
    close_superblock(b >> 3u, bits, squares_of_superblock(t));
  }
  workgroupBarrier();
  let at = t & ~3u;
  let first = own_words[at];
  let second = own_words[at + 1u];
  let third = own_words[at + 2u];
  let fourth = own_words[at + 3u];
  let halves = vec2(own_sums[at] + own_sums[at + 1u], own_sums[at + 2u] + own_sums[at + 3u]);
  if (t == at) {
    own_halves[b % (8u * kSlots)] = halves;
  }
  return BlockInputs(vec4(first.xy, second.xy), vec4(third.xy, fourth.xy),
                     vec4(first.zw, second.zw), vec4(third.zw, fourth.zw), halves);
}
