// Rows of the embedding table. A token of kNone is the one that was chosen last for the row's seat
// (aux).
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
  let pieces = 4u * op.blocks;
  let group = n >> 3u;
  let scales = load_scales(group * op.blocks + j);
  let scale = select(scales.low[n & 3u], scales.high[n & 3u], (n & 4u) != 0u);
  let zeros = load_zeros(group * op.blocks + j);
  let out = op.out_base + row * op.out_stride;
  for (var w = 0u; w < 4u; w++) {
    let values = row_values(n, 4u * j + w, pieces, zeros);
    for (var e = 0u; e < 8u; e++) {
      let k = 32u * j + 8u * w + e;
      let value = select(values.low[e & 3u], values.high[e & 3u], e >= 4u);
      if (k < op.columns) {
        act[out + k] = round_value(value * scale * op.scale, op.round_kind);
      }
    }
  }
}
