// Merges the chunks that attention.wgsl with kSplit left, in rising order: what attention.wgsl does
// without kSplit in its loop over chunks, and with the same function, so that both give the same
// bits.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = workgroup.x;
  let row = workgroup.y;
  let position = row_position(row);
  let pairs = (out_columns() + 1u) / 2u;
  for (var pair = t; pair < pairs; pair += 64u) {
    var all = initial(head);
    for (var chunk = first_visible(position) / kChunk; chunk <= position / kChunk; chunk++) {
      let at = split_at(row, head, chunk);
      let value = vec2(act[at + kSplitHeader + 2u * pair], act[at + kSplitHeader + 2u * pair + 1u]);
      all = merge(all, Softmax(act[at], act[at + 1u], value));
    }
    write_head(row, head, pair, all);
  }
}
