// Weights in q8: value = (q - 128) * scale, 4 bytes a word. Two words are a piece of 8 columns of a
// row.
alias Words = array<vec2<u32>, 8>;

fn pair_at(row: u32, piece: u32, pieces: u32) -> vec2<u32> {
  let at = row * pieces + piece;
  let both = wdata[at >> 1u];
  return select(both.xy, both.zw, (at & 1u) == 1u);
}

fn load_words(group: u32, p: u32, pieces: u32) -> Words {
  let row = 8u * group;
  return Words(pair_at(row, p, pieces), pair_at(row + 1u, p, pieces),
               pair_at(row + 2u, p, pieces), pair_at(row + 3u, p, pieces),
               pair_at(row + 4u, p, pieces), pair_at(row + 5u, p, pieces),
               pair_at(row + 6u, p, pieces), pair_at(row + 7u, p, pieces));
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}

fn row_values(row: u32, piece: u32, pieces: u32, zeros: u32) -> Eight {
  let pair = pair_at(row, piece, pieces);
  let shifts = vec4<u32>(0u, 8u, 16u, 24u);
  let low = (vec4<u32>(pair.x) >> shifts) & vec4<u32>(255u);
  let high = (vec4<u32>(pair.y) >> shifts) & vec4<u32>(255u);
  return Eight(vec4<f32>(low) - 128.0, vec4<f32>(high) - 128.0);
}
