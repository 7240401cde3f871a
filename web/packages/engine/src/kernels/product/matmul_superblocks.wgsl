// Product of many rows with a matrix of superblocks: the bits of matvec_superblocks.wgsl, in the
// tile of matmul.wgsl: 32 rows and 64 outputs a workgroup, 4 rows and 4 outputs a thread.
//
// Threads that bring a block to workgroup memory make of its weights what its rows share, once for
// 32 of them (`tile_weight`): of q4s bytes, so that in between there are dot products alone.
const kRows = 32u;
const kOutputs = 64u;

// Two blocks each: one is computed with while the other one is filled.
var<workgroup> inputs: array<vec4<u32>, 2u * 4u * kRows>;
var<workgroup> weights: array<Block, 2u * kOutputs>;
var<workgroup> pairs: array<u32, 2u * kOutputs>;

// What a thread brings of a block.
struct Part {
  input: vec4<u32>,
  weight: Block,
  pair: u32,
}

fn load_part(first_row: u32, first_group: u32, b: u32, t: u32) -> Part {
  let block = min(b, op.blocks - 1u);
  let row = min(first_row + (t >> 2u), last_row());
  var part: Part;
  part.input = planes[planes_of_row(row) + 4u * block + (t & 3u)];
  if (t < kOutputs) {
    let n = t & 7u;
    let stored = own_head * op.expert_groups + min(first_group + (t >> 3u), op.group_count - 1u);
    part.weight = levels_of(load_block(8u * stored + n, block), stored, block, n);
    part.pair = pairs_of(stored, block)[n >> 1u] >> (16u * (n & 1u));
  }
  return part;
}

fn store_part(part: Part, half: u32, t: u32) {
  inputs[128u * half + t] = part.input;
  if (t < kOutputs) {
    weights[kOutputs * half + t] = tile_weight(part.weight, part.pair);
    pairs[kOutputs * half + t] = part.pair;
  }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  own_head = select(0u, workgroup.z, kByHead);
  let first_row = kRows * workgroup.x;
  let first_group = 8u * workgroup.y;
  let own_row = 4u * (t >> 4u);
  let n = t & 7u;  // row of each of the thread's four groups, which begin at:
  let own_group = 4u * ((t >> 3u) & 1u);
  let head_group = own_head * op.expert_groups;
//* each m of kThreadRows
  let row_$m = planes_of_row(min(first_row + own_row + $mu, last_row()));
//* each j of kThreadOutputs
  var total_$m_$j = 0.0;
  var sum_$m_$j = Sum();
//* end
//* end
//* each j of kThreadOutputs
  let group_$j = head_group + min(first_group + own_group + $ju, op.group_count - 1u);
//* end
  var part = load_part(first_row, first_group, 0u, t);
  for (var b = 0u; b < op.blocks; b++) {
    let half = b & 1u;
    store_part(part, half, t);
    part = load_part(first_row, first_group, b + 1u, t);
    workgroupBarrier();
    let at = kOutputs * half + 8u * own_group + n;
//* each j of kThreadOutputs
    let w_$j = weights[at + 8u * $ju];
    let pair_$j = pairs[at + 8u * $ju];
//* end
//* each m of kThreadRows
    {
      let x = 128u * half + 4u * (own_row + $mu);
      let low_a = inputs[x];
      let low_b = inputs[x + 1u];
      let high_a = inputs[x + 2u];
      let high_b = inputs[x + 3u];
//* each j of kThreadOutputs
      sum_$m_$j += tile_sum(w_$j, pair_$j, low_a, low_b, high_a, high_b);
//* end
    }
//* end
    if ((b & 7u) == 7u || b + 1u == op.blocks) {
      let superblock = b >> 3u;
//* each m of kThreadRows
//* each j of kThreadOutputs
      total_$m_$j = add_superblock(total_$m_$j, sum_$m_$j, group_$j, superblock, n, row_$m);
      sum_$m_$j = Sum();
//* end
//* end
    }
  }
//* each m of kThreadRows
  write_row(first_row + own_row + $mu, first_group + own_group, n,
            vec4(total_$m_0, total_$m_1, total_$m_2, total_$m_3));
//* end
}
