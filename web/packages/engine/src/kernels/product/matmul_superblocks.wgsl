// Product of many rows with a matrix of superblocks: the bits of matvec_superblocks.wgsl, in the
// tile of matmul.wgsl: 32 rows and 64 outputs a workgroup, 4 rows and 4 outputs a thread.
//
// What a block's weights are without their scale, m * (q - 8), is a signed byte. Threads that bring
// a block to workgroup memory make bytes of it once for 32 rows (`expanded`), so that in between
// there are dot products alone.
const kRows = 32u;
const kOutputs = 64u;
const kHighBits = 0x80808080u;

// Two blocks each: one is computed with while the other one is filled.
var<workgroup> inputs: array<vec4<u32>, 2u * 4u * kRows>;
var<workgroup> weights: array<Block, 2u * kOutputs>;

// What a thread brings of a block.
struct Part {
  input: vec4<u32>,
  weight: Words,
  pair: u32,
}

// Four bytes q, 0 to 15, times m, less 8 m. For instance q = 3 and m = -5 are 5 * (16 - 3) - 8 * 5
// = 25 = -5 * (3 - 8). No product is above 240, so none reaches into the next byte. The subtraction
// sets the top bit of every byte first, and puts it right behind that.
fn expanded(q: vec4<u32>, m: i32) -> vec4<u32> {
  let size = u32(abs(m));
  let product = select(q, vec4<u32>(0x10101010u) - q, m < 0) * size;
  let less = (product | vec4<u32>(kHighBits)) - vec4<u32>(0x08080808u * size);
  return less ^ (~product & vec4<u32>(kHighBits));
}

fn load_part(first_row: u32, first_group: u32, b: u32, t: u32) -> Part {
  let block = min(b, op.blocks - 1u);
  let row = min(first_row + (t >> 2u), last_row());
  var part: Part;
  part.input = planes[planes_of_row(row) + 4u * block + (t & 3u)];
  if (t < kOutputs) {
    let n = t & 7u;
    let stored = own_head * op.expert_groups + min(first_group + (t >> 3u), op.group_count - 1u);
    part.weight = load_block(8u * stored + n, block);
    part.pair = wscale[stored * op.blocks + block][n >> 1u] >> (16u * (n & 1u));
  }
  return part;
}

fn store_part(part: Part, half: u32, t: u32) {
  inputs[128u * half + t] = part.input;
  if (t < kOutputs) {
    let q = unpacked(part.weight);
    let by = multipliers_of(part.pair);
    weights[kOutputs * half + t] = Block(expanded(q.a, by.x), expanded(q.b, by.y));
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
  var sum_$m_$j = 0;
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
//* end
//* each m of kThreadRows
    {
      let x = 128u * half + 4u * (own_row + $mu);
      let low_a = inputs[x];
      let low_b = inputs[x + 1u];
      let high_a = inputs[x + 2u];
      let high_b = inputs[x + 3u];
//* each j of kThreadOutputs
      let high_$j = dot_of_four(w_$j.a, high_a) + dot_of_four(w_$j.b, high_b);
      sum_$m_$j += (high_$j << 8u) + dot_of_four(w_$j.a, low_a) + dot_of_four(w_$j.b, low_b);
//* end
    }
//* end
    if ((b & 7u) == 7u || b + 1u == op.blocks) {
      let superblock = b >> 3u;
//* each j of kThreadOutputs
      let scale_$j = weight_scale(group_$j, superblock, n);
//* end
//* each m of kThreadRows
      {
        let own = input_scale(row_$m, superblock);
//* each j of kThreadOutputs
        total_$m_$j = fma(rounded(sum_$m_$j), scale_$j * own, total_$m_$j);
        sum_$m_$j = 0;
//* end
      }
//* end
    }
  }
//* each m of kThreadRows
  write_row(first_row + own_row + $mu, first_group + own_group, n,
            vec4(total_$m_0, total_$m_1, total_$m_2, total_$m_3));
//* end
}
