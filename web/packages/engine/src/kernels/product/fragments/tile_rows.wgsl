// A tile of a product of many rows: kRows of the step's rows, one behind the other.
var<private> first_row: u32;

// Whether the workgroup has a tile.
fn open_tile(workgroup: vec3<u32>, t: u32) -> bool {
  own_head = select(0u, workgroup.z, kByHead);
  first_row = kRows * workgroup.x;
  return true;
}

fn has_row(r: u32) -> bool {
  return first_row + r <= last_row();
}

// Row r of the tile among the rows of outputs; any row where the tile has fewer.
fn row_of_tile(r: u32) -> u32 {
  return min(first_row + r, last_row());
}

fn input_of_tile(r: u32) -> u32 {
  return planes_of_row(row_of_tile(r));
}
