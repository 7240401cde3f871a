// Four neighbouring lanes share a block of the inputs: each prepares 8 columns, `q`, and gives them
// to the others by shuffles. Past the last block everything is 0.
fn input_block(base: u32, block: u32, q: u32) -> Input {
  add_squares(base, 4u * block + q);
  let x = input_piece(base, 4u * block + q);
  var largest = largest_of(x);
  largest = max(largest, quadSwapX(largest));
  largest = max(largest, quadSwapY(largest));
  let exponent = exponent_of(largest);
  let own = piece_of(x, exponent);
  let both = own.sum + quadSwapX(own.sum);
  let sum = both + quadSwapY(both);
  let words = vec4(own.low, own.high);
  let a = quadBroadcast(words, 0u);
  let b = quadBroadcast(words, 1u);
  let c = quadBroadcast(words, 2u);
  let d = quadBroadcast(words, 3u);
  return Input(vec4(a.xy, b.xy), vec4(c.xy, d.xy), vec4(a.zw, b.zw), vec4(c.zw, d.zw), sum,
               scale_of(exponent, sum));
}

// The sum over the four lanes of a block; all of them get it.
fn sum_of_four(v: f32, t: u32) -> f32 {
  let both = v + quadSwapX(v);
  return both + quadSwapY(both);
}
