// Product of many rows with a matrix of superblocks: the bits of matvec_superblocks.wgsl. A
// workgroup makes a tile of kRows rows (16 or 32) and 64 outputs, a thread of it kThreadRows rows
// and 4 outputs.
//
// A tile walks 64 columns at a time, a stage of two blocks. Threads that bring a stage to workgroup
// memory make of its weights what its rows share, once for all of them (`tile_weight`): of q4s
// bytes, so that in between there are dot products alone. The next stage's loads begin behind the
// barrier, so that nobody waits for them before this stage is multiplied:
//
//   store stage 0 | barrier | load 1, multiply 0 | barrier | store 1 | barrier | load 2, multiply 1
//
// A thread multiplies 16 columns at a time: with 32 it needs 40 registers more, and fewer
// workgroups fit on a processor. The driver that was looked at adds each two dots to a sum by an
// instruction of its own. H and L (`TileSum`) stay apart up to the end of a superblock, for one sum
// of both would take two instructions more for each block.
const kRows = 8u * kThreadRows;
const kOutputs = 64u;
const kThreads = 128u;
const kStride = kOutputs + 4u;  // of a block's weights, so that neighbours store to different banks

var<workgroup> inputs: array<vec4<u32>, 4u * kStageBlocks * kRows>;
var<workgroup> weights_a: array<vec4<u32>, kStageBlocks * kStride>;
var<workgroup> weights_b: array<vec4<u32>, kStageBlocks * kStride>;
var<workgroup> pairs: array<u32, kStageBlocks * kOutputs>;
var<workgroup> input_sums: array<i32, kStageBlocks * kRows>;  // where the rule has minima

// What a thread brings of every stage: pieces of inputs, of rows that begin at `from`, and a block
// of weights of row n of a group of the matrix.
struct Place {
//* each i of kInputsEach
  from_$i: u32,
//* end
  sums_of: u32,  // a row of inputs
  group: u32,
  n: u32,
}

// What it brings of one stage.
struct Part {
//* each i of kInputsEach
  input_$i: vec4<u32>,
//* end
  weight: Fetched,
  pair: u32,
  input_sum: i32,
}

fn place_of_thread(first_group: u32, t: u32) -> Place {
  var place: Place;
//* each i of kInputsEach
  place.from_$i = input_of_tile((t + kThreads * $iu) >> 3u);
//* end
  if (kHasMinima && t < 2u * kRows) {
    place.sums_of = input_of_tile(t >> 1u);
  }
  place.group = own_head * op.expert_groups + min(first_group + (t >> 4u), op.group_count - 1u);
  place.n = (t >> 1u) & 7u;
  return place;
}

// Of the blocks b and b + 1. Past the last block inputs are 0.
fn load_part(place: Place, b: u32, t: u32) -> Part {
  var part: Part;
  let last = op.blocks - 1u;
  let input = b + ((t >> 2u) & 1u);
  let at = 4u * min(input, last) + (t & 3u);
//* each i of kInputsEach
  part.input_$i = select(vec4<u32>(), planes[place.from_$i + at], input <= last);
//* end
  let block = min(b + (t & 1u), last);
  if (kHasMinima && t < 2u * kRows) {
    let halves = half_sums(place.sums_of, block);
    part.input_sum = halves.x + halves.y;
  }
  part.weight = fetched(load_block(8u * place.group + place.n, block), place.group, block, place.n);
  part.pair = pair_at(place.group, block, place.n);
  return part;
}

fn store_part(part: Part, t: u32) {
//* each i of kInputsEach
  inputs[t + kThreads * $iu] = part.input_$i;
//* end
  if (kHasMinima && t < 2u * kRows) {
    input_sums[t] = part.input_sum;
  }
  let weight = tile_weight(levels_in(part.weight), part.pair);
  let at = kStride * (t & 1u) + (t >> 1u);
  weights_a[at] = weight.a;
  weights_b[at] = weight.b;
  pairs[kOutputs * (t & 1u) + (t >> 1u)] = part.pair;
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
  var sum_$m_$j = TileSum();
  var least_$m_$j = 0;
//* end
//* end
//* each j of kThreadOutputs
  let group_$j = head_group + min(first_group + own_group + $ju, op.group_count - 1u);
//* end
  let place = place_of_thread(first_group, t);
  var part = load_part(place, 0u, t);
  for (var b = 0u; b < op.blocks; b += kStageBlocks) {
    store_part(part, t);
    workgroupBarrier();
    part = load_part(place, b + kStageBlocks, t);
//* each k of kStageBlocks
    {
      let at = kStride * $ku + 8u * own_group + n;
      let x = 8u * own_row + 4u * $ku;
//* each j of kThreadOutputs
      let pair_$j = pairs[kOutputs * $ku + 8u * (own_group + $ju) + n];
      let by_$j = halves_of(pair_$j);
//* end
      {
//* each j of kThreadOutputs
        let w_$j = weights_a[at + 8u * $ju];
//* end
//* each m of kThreadRows
        {
          let low = inputs[x + 8u * $mu];
          let high = inputs[x + 8u * $mu + 2u];
//* each j of kThreadOutputs
          sum_$m_$j += half_sum(w_$j, by_$j.x, low, high);
//* end
        }
//* end
      }
      {
//* each j of kThreadOutputs
        let w_$j = weights_b[at + 8u * $ju];
//* end
//* each m of kThreadRows
        {
          let low = inputs[x + 8u * $mu + 1u];
          let high = inputs[x + 8u * $mu + 3u];
//* each j of kThreadOutputs
          sum_$m_$j += half_sum(w_$j, by_$j.y, low, high);
//* end
        }
//* end
      }
//* each m of kThreadRows
      let total_of_$m = input_sums[2u * (own_row + $mu) + $ku];
//* each j of kThreadOutputs
      least_$m_$j += least_of(pair_$j, total_of_$m);
//* end
//* end
    }
//* end
    if ((b & 7u) == 8u - kStageBlocks || b + kStageBlocks >= op.blocks) {
      let superblock = b >> 3u;
//* each m of kThreadRows
//* each j of kThreadOutputs
      total_$m_$j = add_superblock(total_$m_$j, sum_of_tile(sum_$m_$j), least_$m_$j, group_$j,
                                   superblock, n, row_$m);
      sum_$m_$j = TileSum();
      least_$m_$j = 0;
//* end
//* end
    }
    workgroupBarrier();
  }
//* each m of kThreadRows
  write_row(own_row + $mu, first_group + own_group, n,
            vec4(total_$m_0, total_$m_1, total_$m_2, total_$m_3));
//* end
}
