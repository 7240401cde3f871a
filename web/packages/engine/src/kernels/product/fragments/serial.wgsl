// Sums of products without barriers: one invocation walks the 32 lanes of every part in the order
// that matvec.wgsl and lanes_*.wgsl define, so that the bits are theirs. For devices that pay
// dearly for barriers and for workgroup memory: software adapters above all.
var<private> lanes: array<Eight, 32>;

fn added(a: Eight, b: Eight) -> Eight {
  return Eight(a.low + b.low, a.high + b.high);
}

// Adds lanes 16 apart, then 8, 4, 2, 1.
fn sum_of_lanes() -> Eight {
  for (var distance = 16u; distance > 0u; distance >>= 1u) {
    for (var i = 0u; i < distance; i++) {
      lanes[i] = added(lanes[i], lanes[i + distance]);
    }
  }
  return lanes[0];
}

fn input_of(row: u32, piece: u32) -> Input {
  let x = act_eight(in_base() + row * op.in_stride, 8u * piece);
  if (!kWithNorm) {
    return prepared(x);
  }
  let w = vector_eight(op.norm_base, 8u * piece);
  return prepared(Eight(x.low * w.low, x.high * w.high));
}

// The sums of lane `t` of 32 kParts, one for each row of the group.
fn lane_sum(group: u32, row: u32, t: u32) -> Eight {
  let pieces = 4u * op.blocks;
  var sum = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
  for (var p = t; p < pieces; p += 32u * kParts) {
    let block = group * op.blocks + (p >> 2u);
    let words = load_words(group, p, pieces);
    let dots = rows_dot(words, load_zeros(block), input_of(row, p));
    let scales = load_scales(block);
    sum = Eight(fma(dots.low, scales.low, sum.low), fma(dots.high, scales.high, sum.high));
  }
  return sum;
}

// The 8 rows of a group times a row of inputs.
fn group_sum(group: u32, row: u32) -> Eight {
  var total: Eight;
  for (var part = 0u; part < kParts; part++) {
    for (var lane = 0u; lane < 32u; lane++) {
      lanes[lane] = lane_sum(group, row, 32u * part + lane);
    }
    let sum = sum_of_lanes();
    if (part == 0u) {
      total = sum;
    } else {
      total = added(total, sum);
    }
  }
  return total;
}

fn lane_squares(row: u32, t: u32) -> f32 {
  var sum = 0.0;
  for (var p = t; p < 4u * op.blocks; p += 32u * kParts) {
    let x = act_eight(in_base() + row * op.in_stride, 8u * p);
    sum = dot_from(x, x, sum);
  }
  return sum;
}

fn inverse_rms(row: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  var total = 0.0;
  for (var part = 0u; part < kParts; part++) {
    for (var lane = 0u; lane < 32u; lane++) {
      lanes[lane].low.x = lane_squares(row, 32u * part + lane);
    }
    let sum = sum_of_lanes().low.x;
    total = select(total + sum, sum, part == 0u);
  }
  return 1.0 / sqrt(total / f32(op.columns) + op.epsilon);
}
