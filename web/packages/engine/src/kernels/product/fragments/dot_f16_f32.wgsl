// Eight f16 or bf16 weights of each of 8 rows times 8 inputs, in f32.
alias Input = Eight;

fn row_values(row: u32, piece: u32, pieces: u32, zeros: u32) -> Eight {
  return widened(wdata[row * pieces + piece]);
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
