// Eight f16 or bf16 weights of each of 8 rows: a vec4<u32> a row, and no zero points.
alias Words = array<vec4<u32>, 8>;

fn load_words(at: u32, step: u32) -> Words {
  return Words(wdata[at], wdata[at + step], wdata[at + 2u * step], wdata[at + 3u * step],
               wdata[at + 4u * step], wdata[at + 5u * step], wdata[at + 6u * step],
               wdata[at + 7u * step]);
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}
