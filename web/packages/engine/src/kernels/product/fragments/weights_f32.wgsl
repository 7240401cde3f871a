// Weights in f32: two vec4<u32> are a piece of 8 columns of a row.
alias Input = Eight;
alias Words = array<Eight, 8>;

fn eight_at(row: u32, piece: u32, pieces: u32) -> Eight {
  let at = 2u * (row * pieces + piece);
  return Eight(bitcast<vec4<f32>>(wdata[at]), bitcast<vec4<f32>>(wdata[at + 1u]));
}

fn load_words(group: u32, p: u32, pieces: u32) -> Words {
  let row = 8u * group;
  return Words(eight_at(row, p, pieces), eight_at(row + 1u, p, pieces),
               eight_at(row + 2u, p, pieces), eight_at(row + 3u, p, pieces),
               eight_at(row + 4u, p, pieces), eight_at(row + 5u, p, pieces),
               eight_at(row + 6u, p, pieces), eight_at(row + 7u, p, pieces));
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}

fn row_values(row: u32, piece: u32, pieces: u32, zeros: u32) -> Eight {
  return eight_at(row, piece, pieces);
}

fn prepared(x: Eight) -> Input {
  return x;
}

fn rows_dot(words: Words, zeros: u32, x: Input) -> Eight {
  return Eight(vec4(dot_eight(words[0], x), dot_eight(words[1], x), dot_eight(words[2], x),
                    dot_eight(words[3], x)),
               vec4(dot_eight(words[4], x), dot_eight(words[5], x), dot_eight(words[6], x),
                    dot_eight(words[7], x)));
}
