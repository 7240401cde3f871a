// Eight f16 or bf16 weights of each of 8 rows times 8 inputs, in f32.
alias Input = Eight;
alias Words = array<vec4<u32>, 8>;

fn load_words(at: u32, step: u32) -> Words {
  return Words(wdata[at], wdata[at + step], wdata[at + 2u * step], wdata[at + 3u * step],
               wdata[at + 4u * step], wdata[at + 5u * step], wdata[at + 6u * step],
               wdata[at + 7u * step]);
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}

fn row_values(row: u32, at: u32, step: u32, zeros: u32) -> Eight {
  return widened(wdata[at + row * step]);
}

fn prepared(x: Eight) -> Input {
  return x;
}

fn rows_dot(words: Words, zeros: u32, x: Input) -> Eight {
  return Eight(
    vec4(dot_eight(widened(words[0]), x), dot_eight(widened(words[1]), x),
         dot_eight(widened(words[2]), x), dot_eight(widened(words[3]), x)),
    vec4(dot_eight(widened(words[4]), x), dot_eight(widened(words[5]), x),
         dot_eight(widened(words[6]), x), dot_eight(widened(words[7]), x)));
}
