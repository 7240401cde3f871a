// Threads share a row's input by shuffles: 32 lanes are a superblock, four of them a block.
fn block_inputs(base: u32, b: u32, t: u32) -> BlockInputs {
  var x = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
  var sum = 0.0;
  if (b < op.blocks) {
    x = input_piece(base, 4u * b + (t & 3u));
    sum = squares_of_piece(base, 4u * b + (t & 3u));
  }
  var bits = magnitude_of(x);
  for (var distance = 1u; distance < 32u; distance *= 2u) {
    bits = max(bits, subgroupShuffleXor(bits, distance));
    sum = sum + subgroupShuffleXor(sum, distance);
  }
  let own = piece_of(x, exponent_of_bits(bits));
  let words = vec4(own.low, own.high);
  let first = quadBroadcast(words, 0u);
  let second = quadBroadcast(words, 1u);
  let third = quadBroadcast(words, 2u);
  let fourth = quadBroadcast(words, 3u);
  let half = i32(own.sum) + quadSwapX(i32(own.sum));
  let other = quadSwapY(half);
  let halves = select(vec2(half, other), vec2(other, half), (t & 2u) == 2u);
  if ((t & 31u) == 0u) {
    close_superblock(b >> 3u, bits, sum);
  }
  if ((t & 3u) == 0u) {
    own_halves[b % (8u * kSlots)] = halves;
  }
  return BlockInputs(vec4(first.xy, second.xy), vec4(third.xy, fourth.xy),
                     vec4(first.zw, second.zw), vec4(third.zw, fourth.zw), halves);
}
