// Product of many rows with a matrix in integers: a workgroup makes a tile of 32 rows and 64
// outputs, a thread 4 rows and 4 outputs, block after block of the inputs (blocks_planes.wgsl) and
// of the weights from workgroup memory. Blocks come in the order in which matvec_blocks.wgsl adds
// them: class after class.
const kRows = 32u;
const kOutputs = 64u;
const kThreads = 128u;

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

fn load_part(first_row: u32, first_group: u32, b: u32, t: u32) -> Part {
  let block = min(b, op.blocks - 1u);
  let row = min(first_row + (t >> 2u), last_row());
  let at = planes_of_row(row) + 4u * block + (t & 3u);
  let scale_row = planes_of_row(min(first_row + (t & 31u), last_row()));
  let n = t & 63u;
  let group = min(first_group + (n >> 3u), op.group_count - 1u);
  let group_block = group * op.blocks + block;
  let pair = unpack2x16float(wscale[group_block][(n & 7u) >> 1u]);
  let zero = (load_zeros(group_block) >> (4u * (n & 7u))) & 15u;
  return Part(planes[at], sum_and_scale(scale_row, block),
              load_block(8u * group + (n & 7u), block),
              vec2(select(pair.x, pair.y, (n & 1u) == 1u), bitcast<f32>(zero)));
}

fn store_part(part: Part, half: u32, t: u32) {
  inputs[128u * half + t] = part.input;
  if (t < kRows) {
    input_scales[kRows * half + t] = part.input_scale;
  }
  if (t < kOutputs) {
    weights[kOutputs * half + t] = part.weight;
    weight_scales[kOutputs * half + t] = part.weight_scale;
  }
}

fn input_of(half: u32, row: u32) -> Input {
  let at = 128u * half + 4u * row;
  let own = input_scales[kRows * half + row];
  return Input(inputs[at], inputs[at + 1u], inputs[at + 2u], inputs[at + 3u], own.x, own.y);
}

@compute @workgroup_size(kThreads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let first_row = kRows * workgroup.x;
  let first_group = 8u * workgroup.y;
  let own_row = 4u * (t >> 4u);
  let n = t & 7u;  // row of each of the thread's four groups, which begin at:
  let own_group = 4u * ((t >> 3u) & 1u);
  var totals: array<f32, 16>;
  var sums: array<f32, 16>;
  var b = 0u;
  var class_index = 0u;
  var part = load_part(first_row, first_group, b, t);
  for (var i = 0u; i < op.blocks; i++) {
    let half = i & 1u;
    store_part(part, half, t);
    let is_last = b + kClasses >= op.blocks;  // of its class
    class_index += select(0u, 1u, is_last);
    b = select(b + kClasses, class_index, is_last);
    part = load_part(first_row, first_group, b, t);
    workgroupBarrier();
    var own_weights: array<Block, 4>;
    var own_scales: array<vec2<f32>, 4>;
    for (var j = 0u; j < 4u; j++) {
      let at = kOutputs * half + 8u * (own_group + j) + n;
      own_weights[j] = unpacked(weights[at]);
      own_scales[j] = weight_scales[at];
    }
    for (var m = 0u; m < 4u; m++) {
      let x = input_of(half, own_row + m);
      for (var j = 0u; j < 4u; j++) {
        let dot = block_dot(own_weights[j], bitcast<u32>(own_scales[j].y), x);
        sums[4u * m + j] = fma(dot * x.scale, own_scales[j].x, sums[4u * m + j]);
      }
    }
    if (is_last) {
      for (var k = 0u; k < 16u; k++) {
        totals[k] = totals[k] + sums[k];
        sums[k] = 0.0;
      }
    }
  }
  for (var m = 0u; m < 4u; m++) {
    let row = first_row + own_row + m;
    if (row <= last_row()) {
      write_row(row, first_group + own_group, n,
                vec4(totals[4u * m], totals[4u * m + 1u], totals[4u * m + 2u],
                     totals[4u * m + 3u]));
    }
  }
}

// Outputs of row n of four neighbouring groups.
fn write_row(row: u32, group: u32, n: u32, sums: vec4<f32>) {
  let totals = sums * planes_inverse_rms(planes_of_row(row));
  for (var j = 0u; j < 4u; j++) {
    if (group + j >= op.group_count) {
      return;
    }
    if (!kPaired) {
      finish(row, op.row_first + 8u * (group + j) + n, totals[j]);
    } else if ((j & 1u) == 0u) {
      finish_pair(row, (op.row_first >> 1u) + 4u * (group + j) + n, totals[j], totals[j + 1u], 0u);
    }
  }
}
