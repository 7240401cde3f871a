// Weights in q4: value = (q - zero) * scale, 8 nibbles a word, lowest first. A piece of 8 rows is
// two vec4<u32>: a word of 8 columns for each row.
const kVecs = 2u;

struct Words {
  low: vec4<u32>,
  high: vec4<u32>,
}

fn load_words(at: u32, step: u32) -> Words {
  return Words(wdata[at], wdata[at + step]);
}

// The zero points of a block's 8 rows, a nibble each.
fn load_zeros(group_block: u32) -> u32 {
  if (op.zero_base == kNone) {
    return 0x88888888u;
  }
  let at = op.zero_base + group_block;
  return wscale[at >> 2u][at & 3u];
}

fn row_values(row: u32, at: u32, step: u32, zeros: u32) -> Eight {
  let word = wdata[at + (row >> 2u) * step][row & 3u];
  let zero = f32((zeros >> (4u * row)) & 15u);
  let shifts = vec4<u32>(0u, 4u, 8u, 12u);
  let low = (vec4<u32>(word) >> shifts) & vec4<u32>(15u);
  let high = (vec4<u32>(word >> 16u) >> shifts) & vec4<u32>(15u);
  return Eight(vec4<f32>(low) - zero, vec4<f32>(high) - zero);
}

// A word of each row times the inputs; word_dot: dot_q4_floats.wgsl or dot_q4_integers.wgsl.
fn rows_dot(words: Words, zeros: u32, x: Input) -> Eight {
  let a = words.low;
  let b = words.high;
  return Eight(
    vec4(word_dot(a.x, zeros, x), word_dot(a.y, zeros >> 4u, x), word_dot(a.z, zeros >> 8u, x),
         word_dot(a.w, zeros >> 12u, x)),
    vec4(word_dot(b.x, zeros >> 16u, x), word_dot(b.y, zeros >> 20u, x),
         word_dot(b.z, zeros >> 24u, x), word_dot(b.w, zeros >> 28u, x)));
}
