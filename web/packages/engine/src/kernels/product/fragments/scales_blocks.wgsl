// The f16 scales of a block's 8 rows.
fn load_scales(group_block: u32) -> Eight {
  let words = wscale[group_block];
  return Eight(vec4(unpack2x16float(words.x), unpack2x16float(words.y)),
               vec4(unpack2x16float(words.z), unpack2x16float(words.w)));
}
