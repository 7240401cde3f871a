// Weights in f32: a piece of 8 rows is sixteen vec4<u32>, two a row.
const kVecs = 16u;
alias Input = Eight;
alias Words = array<Eight, 8>;

fn eight_at(at: u32, step: u32) -> Eight {
  return Eight(bitcast<vec4<f32>>(wdata[at]), bitcast<vec4<f32>>(wdata[at + step]));
}

fn load_words(at: u32, step: u32) -> Words {
  return Words(eight_at(at, step), eight_at(at + 2u * step, step),
               eight_at(at + 4u * step, step), eight_at(at + 6u * step, step),
               eight_at(at + 8u * step, step), eight_at(at + 10u * step, step),
               eight_at(at + 12u * step, step), eight_at(at + 14u * step, step));
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}

fn row_values(row: u32, at: u32, step: u32, zeros: u32) -> Eight {
  return eight_at(at + 2u * row * step, step);
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
