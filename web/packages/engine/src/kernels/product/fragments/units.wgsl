// What kernels on matrix units share. A kernel has `mem`, of parts for fragments, `scales`, kRows,
// kColumns, kThreads and kOutputWords.
//
// A fragment is loaded and stored at a place of its part that the compiler knows. Of any other
// place Dawn asks whether it lies in bounds, with a stride for either case: then no compiler knows
// the stride, and loads take three times as long.
alias Left = subgroup_matrix_left<i8, 32, 16>;
alias Right = subgroup_matrix_right<i8, 16, 32>;

// Words `turn`, turn + 1, ... of four, beginning again with the first.
fn turned(words: vec4<u32>, turn: u32) -> vec4<i32> {
  let once = select(words, words.yzwx, (turn & 1u) == 1u);
  return bitcast<vec4<i32>>(select(once, once.zwxy, (turn & 2u) == 2u));
}

// Four words from `at` on. Threads that would hit the same bank begin at different ones.
fn store_four(part: u32, at: u32, words: vec4<u32>, turn: u32) {
  let own = turned(words, turn);
  mem[part][at + (turn & 3u)] = own.x;
  mem[part][at + ((turn + 1u) & 3u)] = own.y;
  mem[part][at + ((turn + 2u) & 3u)] = own.z;
  mem[part][at + ((turn + 3u) & 3u)] = own.w;
}

// Group g of the tile, in the matrix.
fn group_of_tile(first_group: u32, g: u32) -> u32 {
  return own_head * op.expert_groups + min(first_group + g, op.group_count - 1u);
}

// The word with the multipliers of a block of row n of a group. Nothing is made of it before it is
// needed: until then no thread waits for it.
fn two_pairs_of(group: u32, block: u32, n: u32) -> u32 {
  return two_pairs_at(group, min(block, op.blocks - 1u), n);
}

// Those of row n, 0 past the last block.
fn pair_of(two: u32, block: u32, n: u32) -> u32 {
  return select(0u, two >> (16u * (n & 1u)), block < op.blocks);
}

// What pair_of makes of two_pairs_of, at once.
fn pair_in(group: u32, block: u32, n: u32) -> u32 {
  return pair_of(two_pairs_of(group, block, n), block, n);
}

// Words of row n of a group: of the last block where there is no such one.
fn words_of(group: u32, block: u32, n: u32) -> Words {
  return load_block(8u * group + n, min(block, op.blocks - 1u));
}

// Scale `i` of a superblock, or of the last one, as memory has it: those of the rows, then those of
// the outputs. What the bits say is found out when they are needed, for until then nobody waits.
fn scale_bits_at(first_group: u32, superblock: u32, i: u32) -> u32 {
  let known = min(superblock, superblocks() - 1u);
  if (i < kRows) {
    return input_scale_bits(input_of_tile(i), known);
  }
  let column = (i - kRows) % kColumns;
  return scale_word(group_of_tile(first_group, column >> 3u), known, column & 7u);
}

fn scale_of_bits_at(bits: u32, i: u32) -> f32 {
  return select(scale_of_word(bits, (i - kRows) & 7u), bitcast<f32>(bits), i < kRows);
}

// Leaves scale `i` among those from `first` on; those past the last one are nobody's.
fn store_scale(first: u32, bits: u32, i: u32) {
  if (i < kRows + kColumns) {
    scales[first + i] = scale_of_bits_at(bits, i);
  }
}

// Outputs lie one behind the other, kOutputWords in a part.
fn store_output(at: u32, value: f32) {
  mem[at / kOutputWords][at % kOutputWords] = bitcast<i32>(value);
}

fn load_output(at: u32) -> f32 {
  return bitcast<f32>(mem[at / kOutputWords][at % kOutputWords]);
}

// Finishes outputs of row r of the tile, which lie from `at` on: row n of four groups from `group`.
fn finish_outputs(r: u32, group: u32, n: u32, at: u32) {
  write_row(r, group, n, vec4(load_output(at), load_output(at + 8u), load_output(at + 16u),
                              load_output(at + 24u)));
}
