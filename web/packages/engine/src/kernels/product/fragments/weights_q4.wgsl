// Weights in q4: value = (q - zero) * scale, 8 nibbles a word, lowest first. A word is a piece of 8
// columns of a row.
struct Words {
  low: vec4<u32>,
  high: vec4<u32>,
}

fn word_at(row: u32, piece: u32, pieces: u32) -> u32 {
  let at = row * pieces + piece;
  return wdata[at >> 2u][at & 3u];
}

fn load_words(group: u32, p: u32, pieces: u32) -> Words {
  let row = 8u * group;
  return Words(vec4(word_at(row, p, pieces), word_at(row + 1u, p, pieces),
                    word_at(row + 2u, p, pieces), word_at(row + 3u, p, pieces)),
               vec4(word_at(row + 4u, p, pieces), word_at(row + 5u, p, pieces),
                    word_at(row + 6u, p, pieces), word_at(row + 7u, p, pieces)));
}

fn row_values(row: u32, piece: u32, pieces: u32, zeros: u32) -> Eight {
  let word = word_at(row, piece, pieces);
  let zero = f32((zeros >> (4u * (row & 7u))) & 15u);
  let shifts = vec4<u32>(0u, 4u, 8u, 12u);
  let low = (vec4<u32>(word) >> shifts) & vec4<u32>(15u);
  let high = (vec4<u32>(word >> 16u) >> shifts) & vec4<u32>(15u);
  return Eight(vec4<f32>(low) - zero, vec4<f32>(high) - zero);
}

// A word of each row times the inputs; word_dot: dot_q4_f32.wgsl or dot_q4_f16.wgsl.
fn rows_dot(words: Words, zeros: u32, x: Input) -> Eight {
  let a = words.low;
  let b = words.high;
  return Eight(
    vec4(word_dot(a.x, zeros, x), word_dot(a.y, zeros >> 4u, x), word_dot(a.z, zeros >> 8u, x),
         word_dot(a.w, zeros >> 12u, x)),
    vec4(word_dot(b.x, zeros >> 16u, x), word_dot(b.y, zeros >> 20u, x),
         word_dot(b.z, zeros >> 24u, x), word_dot(b.w, zeros >> 28u, x)));
}
