// Rows of the embedding table. A token of kNone is the one that was chosen last for the row's seat
// (aux). What a table has of eight columns: embed_blocks.wgsl or embed_kquants.wgsl.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y;
  let j = id.x;
  if (j >= op.blocks) {
    return;
  }
  var token = row_token(row);
  if (token == kNone) {
    token = aux[op.chain_at + row_seat(row)];
  }
  if (token < op.row_first || token >= op.row_end) {
    return;
  }
  let n = token - op.row_first;
  let block = block_of(n, j);
  let out = op.out_base + row * op.out_stride;
  for (var w = 0u; w < 4u; w++) {
    let values = values_of(block, n, j, w);
    for (var e = 0u; e < 8u; e++) {
      let k = 32u * j + 8u * w + e;
      let value = select(values.low[e & 3u], values.high[e & 3u], e >= 4u);
      if (k < op.columns) {
        act[out + k] = round_value(value * op.scale, op.round_kind);
      }
    }
  }
}
