// Sums of one row times kOutputs outputs of a matrix of superblocks, by shuffles. kAcross threads
// side by side are a set. Each has a block of 32 columns, whose inputs stay in its registers while
// the set takes kRowsEach outputs, kEach times. All threads prepare the inputs, eight columns at a
// time, while the first weights are on their way.
//
// For instance with 4,096 columns, kAcross = 128 and two sets that take 4 outputs twice, thread 142
// has block 14 of outputs 8 to 11, then of 12 to 15. Eight neighbours have the blocks of a
// superblock. Exchanges leave each of them with one output's sum over it: thread 142, the seventh
// of eight, has that of output 11, then of 15. What these add to the outputs lies in workgroup
// memory, until the thread that an output belongs to adds it up, in rising order.
const kSlots = kMostTerms / kOutputs;  // superblocks whose terms are known at once
const kPlanes = 4u;  // of a block: as BlockInputs has them

var<workgroup> own_planes: array<vec4<u32>, kPlanes * kAcross>;
var<workgroup> own_scales: array<f32, kAcross / 8u>;
var<workgroup> own_squares: array<f32, kSlots>;
var<workgroup> terms: array<Term, kMostTerms>;
var<private> lane_scale: f32;  // of the inputs of the thread's superblock
var<private> total_squares: f32;

fn place_of_row(row: u32) -> u32 {
  return in_base() + row * op.in_stride;
}

fn input_scale(first: u32, superblock: u32) -> f32 {
  return lane_scale;
}

// Threads add up the inputs of their blocks by themselves.
fn half_sums(first: u32, block: u32) -> vec2<i32> {
  return vec2<i32>();
}

fn planes_inverse_rms(first: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return 1.0 / sqrt(total_squares / f32(op.columns) + op.epsilon);
}

// Integers and scales of quantise_superblocks.wgsl of kAcross blocks, from superblock `at` on.
// Thread t has columns 8 p to 8 p + 7 with p = t % 4 of block t / 4.
fn prepare_blocks(base: u32, at: u32, end: u32, t: u32) {
//* each j of kPiecesEach
  let i_$j = kThreads * $ju + t;
  let p_$j = 32u * at + i_$j;
  var x_$j = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
  var sum_$j = 0.0;
  if (p_$j < 4u * op.blocks) {
    x_$j = input_piece(base, p_$j);
    sum_$j = squares_of_piece(base, p_$j);
  }
  var bits_$j = magnitude_of(x_$j);
//* end
  for (var distance = 1u; distance < 32u; distance *= 2u) {
//* each j of kPiecesEach
    bits_$j = max(bits_$j, subgroupShuffleXor(bits_$j, distance));
    if (kWithNorm) {
      sum_$j = sum_$j + subgroupShuffleXor(sum_$j, distance);
    }
//* end
  }
//* each j of kPiecesEach
  if (i_$j < 4u * kAcross) {
    let own = piece_of(x_$j, exponent_of_bits(bits_$j));
    let plane = kAcross * ((i_$j >> 1u) & 1u) + (i_$j >> 2u);
    let first = 2u * (i_$j & 1u);
    own_planes[plane][first] = own.low.x;
    own_planes[plane][first + 1u] = own.low.y;
    own_planes[2u * kAcross + plane][first] = own.high.x;
    own_planes[2u * kAcross + plane][first + 1u] = own.high.y;
    if ((i_$j & 31u) == 0u) {
      own_scales[i_$j >> 5u] = scale_of_bits(bits_$j);
      if ((p_$j >> 5u) < end) {
        own_squares[(p_$j >> 5u) % kSlots] = sum_$j;
      }
    }
  }
//* end
}

// The block that lane `own` of a set has.
fn own_inputs(own: u32) -> BlockInputs {
  let low_a = own_planes[own];
  let low_b = own_planes[kAcross + own];
  let high_a = own_planes[2u * kAcross + own];
  let high_b = own_planes[3u * kAcross + own];
  const ones = vec4<u32>(0x01010101u);
  let halves = vec2((dot_of_four(high_a, ones) << 8u) + dot_of_four(low_a, ones),
                    (dot_of_four(high_b, ones) << 8u) + dot_of_four(low_b, ones));
  return BlockInputs(low_a, low_b, high_a, high_b, halves);
}

// One of two sums with the partner's part of it: `a` for lower lanes, `b` for upper ones.
fn crossed(a: Found, b: Found, t: u32, distance: u32) -> Found {
  let is_upper = (t & distance) != 0u;
  return select(a, b, is_upper) + subgroupShuffleXor(select(b, a, is_upper), distance);
}

// The sum over the superblock of the lane's own output, which is `own_row` of kRowsEach.
fn superblock_sum(v: array<Found, kRowsEach>, t: u32) -> Found {
  const half = kRowsEach / 2u;
  const quarter = kRowsEach / 4u;
  let left = crossed(crossed(v[0], v[half], t, 4u),
                     crossed(v[quarter], v[half + quarter], t, 4u), t, 2u);
  if (kRowsEach == 4u) {
    return left + subgroupShuffleXor(left, 1u);
  }
  const third = half - 1u;  // of eight rows 3, as quarter - 1 is 1
  let right = crossed(crossed(v[quarter / 2u], v[half + quarter / 2u], t, 4u),
                      crossed(v[third], v[half + third], t, 4u), t, 2u);
  return crossed(left, right, t, 1u);
}

fn own_row(t: u32) -> u32 {
  return (t & 7u) * kRowsEach / 8u;
}

// As in walk_superblocks.wgsl.
fn output_total(base: u32, first_group: u32, last_group: u32, t: u32,
                rows: array<u32, kTileRows>) -> f32 {
  let own = t % kAcross;
  let set_rows = kRowsEach * kEach * (t / kAcross);
  var total = 0.0;
  for (var begin = 0u; begin < superblocks(); begin += kSlots) {
    let end = min(begin + kSlots, superblocks());
    for (var at = begin; at < end; at += kAcross / 8u) {
      let block = min(8u * at + own, op.blocks - 1u);
      let superblock = at + (own >> 3u);
      var group = base + min(first_group + (set_rows >> 3u), last_group);
      var first = set_rows & 7u;
//* each r of kRowsEach
      var words_$r = load_block(8u * group + first + $ru, block);
//* end
      var pairs = pairs_of(group, block);
      if (at > begin) {
        workgroupBarrier();
      }
      prepare_blocks(rows[0], at, end, t);
      workgroupBarrier();
      let x = own_inputs(own);
      lane_scale = own_scales[own >> 3u];
      for (var e = 0u; e < kEach; e++) {
        let own_group = group;
        let own_first = first;
        let own_pairs = select(pairs, pairs.zwzw, kRowsEach == 4u && first == 4u);
//* each r of kRowsEach
        let own_words_$r = words_$r;
//* end
        let next_rows = set_rows + kRowsEach * (e + 1u);
        if (kAhead && e + 1u < kEach) {
          group = base + min(first_group + (next_rows >> 3u), last_group);
          first = next_rows & 7u;
//* each r of kRowsEach
          words_$r = load_block(8u * group + first + $ru, block);
//* end
          pairs = pairs_of(group, block);
        }
        var found: array<Found, kRowsEach>;
//* each r of kRowsEach
        let pair_$r = own_pairs[$ru >> 1u] >> (16u * ($ru & 1u));
        found[$r] = found_of(
          block_sum(levels_of(own_words_$r, own_group, block, own_first + $ru), pair_$r, x),
          least_of(pair_$r, x.halves.x + x.halves.y));
//* end
        let sum = superblock_sum(found, t);
        if (superblock < end && (kRowsEach == 8u || (t & 1u) == 0u)) {
          terms[kOutputs * (superblock % kSlots) + set_rows + kRowsEach * e + own_row(t)] =
            scaled_term(begun_term(sum), own_group, superblock, own_first + own_row(t), 0u);
        }
        if (!kAhead && e + 1u < kEach) {
          group = base + min(first_group + (next_rows >> 3u), last_group);
          first = next_rows & 7u;
//* each r of kRowsEach
          words_$r = load_block(8u * group + first + $ru, block);
//* end
          pairs = pairs_of(group, block);
        }
      }
    }
    workgroupBarrier();
    if (t < kOutputs) {
      for (var superblock = begin; superblock < end; superblock++) {
        total = add_term(total, terms[kOutputs * (superblock % kSlots) + t]);
        if (kWithNorm) {
          total_squares = total_squares + own_squares[superblock % kSlots];
        }
      }
    }
    if (end < superblocks()) {
      workgroupBarrier();
    }
  }
  return total;
}
