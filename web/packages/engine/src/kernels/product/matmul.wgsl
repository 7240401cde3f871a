// Product of many rows with a matrix in integers: a workgroup makes a tile of 32 rows (or 16) and
// 64 outputs, a thread 4 rows (or 2) and 4 outputs, block after block of the inputs
// (blocks_planes.wgsl) and of the weights from workgroup memory. Which rows, the fragment in front
// says (tile_rows.wgsl, tile_gathered.wgsl). Blocks come in the order in which matvec_blocks.wgsl
// adds them: class after class. With 96 blocks and 32 classes that is 0, 32, 64 | 1, 33, 65 | ...,
// where at every bar the thread adds the class's sums to its totals and begins the next class at 0.
//
// Every block is brought to workgroup memory once by all threads together (load_part, store_part)
// while the block before it is multiplied: one barrier a block. A thread then reads 4 rows of
// inputs and 4 outputs' weights for 16 products of 32 columns. Its outputs are the same row n of
// four groups, so that a gate and its up output of a paired matrix are in one thread.
const kRows = 8u * kThreadRows;
const kOutputs = 64u;

// Two blocks each: one is computed with while the other one is filled.
var<workgroup> inputs: array<vec4<u32>, 2u * 4u * kRows>;
var<workgroup> input_scales: array<vec2<f32>, 2u * kRows>;
var<workgroup> weights: array<Words, 2u * kOutputs>;
var<workgroup> weight_scales: array<vec2<f32>, 2u * kOutputs>;  // and the zero point

// What a thread brings of a block.
struct Part {
  input: vec4<u32>,
  input_scale: vec2<f32>,
  weight: Words,
  weight_scale: vec2<f32>,
}

fn load_part(first_group: u32, b: u32, t: u32) -> Part {
  let block = min(b, op.blocks - 1u);
  var part: Part;
  if (kRows == 32u || t < 4u * kRows) {
    part.input = planes[input_of_tile(t >> 2u) + 4u * block + (t & 3u)];
  }
  if (t < kRows) {
    part.input_scale = sum_and_scale(input_of_tile(t), block);
  }
  if (t < kOutputs) {
    let n = t & 7u;
    let group = min(first_group + (t >> 3u), op.group_count - 1u);
    let stored = own_head * op.expert_groups + group;
    let group_block = stored * op.blocks + block;
    let pair = unpack2x16float(wscale[group_block][n >> 1u]);
    let zeros = load_zeros(group_block) >> (4u * n);
    part.weight = load_block(8u * stored + n, block);
    part.weight_scale = vec2(select(pair.x, pair.y, (n & 1u) == 1u), f32(zeros & 15u));
  }
  return part;
}

fn store_part(part: Part, half: u32, t: u32) {
  if (kRows == 32u || t < 4u * kRows) {
    inputs[4u * kRows * half + t] = part.input;
  }
  if (t < kRows) {
    input_scales[kRows * half + t] = part.input_scale;
  }
  if (t < kOutputs) {
    weights[kOutputs * half + t] = part.weight;
    weight_scales[kOutputs * half + t] = part.weight_scale;
  }
}

fn input_of(half: u32, row: u32) -> Input {
  let at = 4u * (kRows * half + row);
  let own = input_scales[kRows * half + row];
  return Input(inputs[at], inputs[at + 1u], inputs[at + 2u], inputs[at + 3u], own.x, own.y);
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
//* each m of kThreadRows
//* each j of kThreadOutputs
  var total_$m_$j = 0.0;
  var sum_$m_$j = 0.0;
//* end
//* end
  var b = 0u;
  var class_index = 0u;
  var part = load_part(first_group, b, t);
  for (var i = 0u; i < op.blocks; i++) {
    let half = i & 1u;
    store_part(part, half, t);
    let is_last = b + kClasses >= op.blocks;  // of its class
    class_index += select(0u, 1u, is_last);
    b = select(b + kClasses, class_index, is_last);
    part = load_part(first_group, b, t);
    workgroupBarrier();
    let at = kOutputs * half + 8u * own_group + n;
//* each j of kThreadOutputs
    let w_$j = unpacked(weights[at + 8u * $ju]);
    let scale_$j = weight_scales[at + 8u * $ju];
//* end
//* each m of kThreadRows
    {
      let x = input_of(half, own_row + $mu);
//* each j of kThreadOutputs
      let dot_$j = without_zero(f32(integer_dot(w_$j, x)), scale_$j.y, x.sum);
      sum_$m_$j = fma(dot_$j * x.scale, scale_$j.x, sum_$m_$j);
//* end
    }
//* end
    if (is_last) {
//* each m of kThreadRows
//* each j of kThreadOutputs
      total_$m_$j = total_$m_$j + sum_$m_$j;
      sum_$m_$j = 0.0;
//* end
//* end
    }
  }
//* each m of kThreadRows
  write_row(own_row + $mu, first_group + own_group, n,
            vec4(total_$m_0, total_$m_1, total_$m_2, total_$m_3));
//* end
}
