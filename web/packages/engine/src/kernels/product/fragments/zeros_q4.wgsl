// The zero points of a block's 8 rows, a nibble each.
fn load_zeros(group_block: u32) -> u32 {
  if (op.zero_base == kNone) {
    return 0x88888888u;
  }
  let at = op.zero_base + group_block;
  return wscale[at >> 2u][at & 3u];
}
