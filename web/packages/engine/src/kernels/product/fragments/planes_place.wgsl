// Where the integers of a row's input begin, in vec4 (blocks_planes.wgsl). Those of heads with
// inputs of their own lie one behind the other.
fn planes_of_row(row: u32) -> u32 {
  var input = row;
  if (kByHead) {
    input = row * op.plane_heads + own_head % op.plane_heads;
  }
  return op.planes_base + input * (4u * op.blocks + ((op.blocks + 1u) >> 1u) + 1u);
}
