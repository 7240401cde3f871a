// What attention of several rows shares: a tile of queries is `tile_rows` rows times `tile_heads`
// heads of the same head of keys and values. Rows of several sessions in one tile are worked off
// session by session, by `attend` of attention_tiles.wgsl or attention_rows.wgsl.
const kNoScore = -3.0e38;

var<workgroup> chunk_pages: array<u32, 8>;

struct Tile {
  first_row: u32,
  row_end: u32,
  first_head: u32,
}

fn row_of(tile: Tile, q: u32) -> u32 {
  return tile.first_row + q / op.tile_heads;
}

fn head_of(tile: Tile, q: u32) -> u32 {
  return tile.first_head + q % op.tile_heads;
}

// Is query q one of the tile, and its row in [first, end)?
fn is_query(tile: Tile, q: u32, first: u32, end: u32) -> bool {
  let row = row_of(tile, q);
  return q < op.tile_heads * op.tile_rows && row >= first && row < end;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let first_row = workgroup.y * op.tile_rows;
  let row_end = min(first_row + op.tile_rows, row_count());
  let first_head = workgroup.x * op.tile_heads;
  let kv_head = first_head / (op.heads / op.kv_heads);
  let tile = Tile(first_row, row_end, first_head);
  load_queries(tile, t);
  workgroupBarrier();
  var first = first_row;
  while (first < row_end) {
    var end = first + 1u;
    while (end < row_end && row_pages(end) == row_pages(first)) {
      end++;
    }
    attend(tile, first, end, kv_head, t);
    workgroupBarrier();
    first = end;
  }
}
