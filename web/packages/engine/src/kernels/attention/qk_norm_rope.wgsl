// RMS norm and rotation of the heads of one or more views, and appending keys and values to their
// pages: what stands between the q/k/v products and attention, in one dispatch. One head of one row
// a workgroup. (A single row's attention does the same on its own way, attention.wgsl.) Heads of
// one view may go through an activation on their way out.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.y;
  var head = workgroup.x;
  var index = 0u;
  while (index + 1u < op.part_count && head >= op.parts[index].heads) {
    head -= op.parts[index].heads;
    index++;
  }
  let part = op.parts[index];
  make_head(part, row, head, 0u, t, loaded_ahead(part, row, head, t));
  if (part.goes_to == kHeadsToOut) {
    let out = part.out_base + row * part.out_stride + head * op.head_columns;
    for (var d = t; d < op.head_columns; d += 64u) {
      var value = head_values[d];
      if (op.gate_base != kNone) {
        let gate = op.gate_base + row * op.gate_stride + head * op.head_columns + d;
        value = gated(act[gate], value, op.activation);
      }
      act[out + d] = value;
    }
    return;
  }
  let position = row_position(row);
  let page = step[row_pages(row) + (position >> 5u)];
  for (var pair = t; pair < kv_pairs(); pair += 64u) {
    let value = made_pair(0u, pair);
    if (part.goes_to == kHeadsToKeys) {
      store_key(page, head, pair, position & 31u, value);
    } else {
      store_value(page, head, pair, position & 31u, value);
    }
  }
}
