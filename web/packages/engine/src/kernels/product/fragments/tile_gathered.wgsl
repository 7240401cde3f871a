// A tile of rows that one expert has, from the list that moe_order.wgsl made: pairs of a row and a
// slot of its route. For instance 4 slots a row: pair 9 is slot 1 of row 2. The inputs of the first
// half of experts (kExperts) are the rows', those of the second half the pairs' own.
var<workgroup> tile_expert: u32;
var<private> tile_at: u32;  // in `planes`

// Whether the workgroup has a tile: there are as many workgroups as tiles at most.
fn open_tile(workgroup: vec3<u32>, t: u32) -> bool {
  tile_at = op.order_base + 1u + (kRows / 4u + 1u) * workgroup.x;
  if (t == 0u) {
    let is_tile = workgroup.x < planes[op.order_base].x;
    tile_expert = select(kNone, planes[tile_at].x, is_tile);
  }
  let expert = workgroupUniformLoad(&tile_expert);
  own_head = expert;
  return expert != kNone;
}

fn pair_of_tile(r: u32) -> u32 {
  return planes[tile_at + 1u + (r >> 2u)][r & 3u];
}

fn has_row(r: u32) -> bool {
  return pair_of_tile(r) != kNone;
}

// Row r of the tile among the rows of outputs; any row where the tile has fewer.
fn row_of_tile(r: u32) -> u32 {
  let pair = pair_of_tile(r);
  return select(pair, 0u, pair == kNone);
}

fn input_of_tile(r: u32) -> u32 {
  let row = row_of_tile(r);
  return planes_of_row(select(row, row / op.top_k, kExperts));
}
