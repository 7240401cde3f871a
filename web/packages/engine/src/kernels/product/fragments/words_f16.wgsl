// Eight f16 or bf16 weights of each of 8 rows, and no zero points.
alias Words = array<vec4<u32>, 8>;

fn load_words(group: u32, piece: u32, pieces: u32) -> Words {
  let at = 8u * group * pieces + piece;
  return Words(wdata[at], wdata[at + pieces], wdata[at + 2u * pieces], wdata[at + 3u * pieces],
               wdata[at + 4u * pieces], wdata[at + 5u * pieces], wdata[at + 6u * pieces],
               wdata[at + 7u * pieces]);
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}
