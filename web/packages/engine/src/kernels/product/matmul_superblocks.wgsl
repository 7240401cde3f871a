// Product of many rows with a matrix of superblocks: the bits of matvec_superblocks.wgsl, in the
// tile of matmul.wgsl: 32 rows (or 16) and 64 outputs a workgroup, 4 rows (or 2) and 4 outputs a
// thread.
//
// Threads that bring a block to workgroup memory make of its weights what its rows share, once for
// all of them (`tile_weight`): of q4s bytes, so that in between there are dot products alone.
const kRows = 8u * kThreadRows;
const kOutputs = 64u;

// Two blocks each: one is computed with while the other one is filled.
var<workgroup> inputs: array<vec4<u32>, 2u * 4u * kRows>;
var<workgroup> weights: array<Block, 2u * kOutputs>;
var<workgroup> pairs: array<u32, 2u * kOutputs>;
var<workgroup> input_sums: array<i32, 2u * kRows>;  // where the rule has minima

// What a thread brings of a block.
struct Part {
  input: vec4<u32>,
  weight: Block,
  pair: u32,
  input_sum: i32,
}

fn load_part(first_group: u32, b: u32, t: u32) -> Part {
  let block = min(b, op.blocks - 1u);
  var part: Part;
  if (kRows == 32u || t < 4u * kRows) {
    part.input = planes[input_of_tile(t >> 2u) + 4u * block + (t & 3u)];
  }
  if (kHasMinima && t < kRows) {
    let halves = half_sums(input_of_tile(t), block);
    part.input_sum = halves.x + halves.y;
  }
  if (t < kOutputs) {
    let n = t & 7u;
    let stored = own_head * op.expert_groups + min(first_group + (t >> 3u), op.group_count - 1u);
    part.weight = levels_of(load_block(8u * stored + n, block), stored, block, n);
    part.pair = pair_at(stored, block, n);
  }
  return part;
}

fn store_part(part: Part, half: u32, t: u32) {
  if (kRows == 32u || t < 4u * kRows) {
    inputs[4u * kRows * half + t] = part.input;
  }
  if (kHasMinima && t < kRows) {
    input_sums[kRows * half + t] = part.input_sum;
  }
  if (t < kOutputs) {
    weights[kOutputs * half + t] = tile_weight(part.weight, part.pair);
    pairs[kOutputs * half + t] = part.pair;
  }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  if (!open_tile(workgroup, t)) {
    return;
  }
  let first_group = 8u * workgroup.y;
  let own_row = kThreadRows * (t >> 4u);
  let n = t & 7u;  // row of each of the thread's four groups, which begin at:
  let own_group = 4u * ((t >> 3u) & 1u);
  let head_group = own_head * op.expert_groups;
//* each m of kThreadRows
  let row_$m = input_of_tile(own_row + $mu);
//* each j of kThreadOutputs
  var total_$m_$j = 0.0;
  var sum_$m_$j = Sum();
  var least_$m_$j = 0;
//* end
//* end
//* each j of kThreadOutputs
  let group_$j = head_group + min(first_group + own_group + $ju, op.group_count - 1u);
//* end
  var part = load_part(first_group, 0u, t);
  for (var b = 0u; b < op.blocks; b++) {
    let half = b & 1u;
    store_part(part, half, t);
    part = load_part(first_group, b + 1u, t);
    workgroupBarrier();
    let at = kOutputs * half + 8u * own_group + n;
//* each j of kThreadOutputs
    let w_$j = weights[at + 8u * $ju];
    let pair_$j = pairs[at + 8u * $ju];
//* end
//* each m of kThreadRows
    {
      let x = 4u * (kRows * half + own_row + $mu);
      let low_a = inputs[x];
      let low_b = inputs[x + 1u];
      let high_a = inputs[x + 2u];
      let high_b = inputs[x + 3u];
      let total = input_sums[kRows * half + own_row + $mu];
//* each j of kThreadOutputs
      sum_$m_$j += tile_sum(w_$j, pair_$j, low_a, low_b, high_a, high_b);
      least_$m_$j += least_of(pair_$j, total);
//* end
    }
//* end
    if ((b & 7u) == 7u || b + 1u == op.blocks) {
      let superblock = b >> 3u;
//* each m of kThreadRows
//* each j of kThreadOutputs
      total_$m_$j = add_superblock(total_$m_$j, sum_$m_$j, least_$m_$j, group_$j, superblock, n,
                                   row_$m);
      sum_$m_$j = Sum();
      least_$m_$j = 0;
//* end
//* end
    }
  }
//* each m of kThreadRows
  write_row(own_row + $mu, first_group + own_group, n,
            vec4(total_$m_0, total_$m_1, total_$m_2, total_$m_3));
//* end
}
