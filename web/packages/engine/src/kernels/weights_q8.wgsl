// Weights in q8: value = (q - 128) * scale, 4 bytes a word. A piece of 8 rows is four vec4<u32>:
// two words of 8 columns for each row.
const kVecs = 4u;

struct Words {
  a: vec4<u32>,
  b: vec4<u32>,
  c: vec4<u32>,
  d: vec4<u32>,
}

fn load_words(at: u32, step: u32) -> Words {
  return Words(wdata[at], wdata[at + step], wdata[at + 2u * step], wdata[at + 3u * step]);
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}

fn row_values(row: u32, at: u32, step: u32, zeros: u32) -> Eight {
  let words = wdata[at + (row >> 1u) * step];
  let pair = select(words.xy, words.zw, (row & 1u) == 1u);
  let shifts = vec4<u32>(0u, 8u, 16u, 24u);
  let low = (vec4<u32>(pair.x) >> shifts) & vec4<u32>(255u);
  let high = (vec4<u32>(pair.y) >> shifts) & vec4<u32>(255u);
  return Eight(vec4<f32>(low) - 128.0, vec4<f32>(high) - 128.0);
}
