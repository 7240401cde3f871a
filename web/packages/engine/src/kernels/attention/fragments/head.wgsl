// RMS norm and rotation of one head by 64 threads: what qk_norm_rope.wgsl and attention.wgsl share.
// A workgroup works on kHeads heads at a time. Cosines and sines come with the step: WGSL's own are
// too imprecise for positions.
//
//   norm      x[d] <- x[d] * weight[d] / sqrt(sum over d of x[d]^2 / columns + epsilon)
//             of all columns, or of those that a latent key has behind the rotated ones
//   rotation  (a, b) <- (a cos - b sin, b cos + a sin)   for pair i of `rope_pairs`:
//             a = x[i], b = x[i + rope_pairs], or interleaved a = x[2 i], b = x[2 i + 1]
var<workgroup> head_values: array<f32, kHeads * kHeadSpan>;  // [head][column]
var<workgroup> squares: array<f32, 64u * kHeads>;
var<workgroup> runs_of_squares: array<f32, 8u * kHeads>;

// What memory has of a thread's first two columns, and what its first pair is turned by. It is
// loaded before anybody waits at a barrier, behind which each load would be waited for by itself.
struct Ahead {
  values: vec2<f32>,
  weights: vec2<f32>,  // of the norm, if there is one
  turn: vec2<f32>,
}

// Columns in front of those that the norm is of.
fn skipped_columns(part: Part) -> u32 {
  return select(0u, op.key_norm_first, part.goes_to == kHeadsToKeys);
}

// The first of a thread's columns that counts for the norm.
fn first_normed(part: Part, t: u32) -> u32 {
  return t + (skipped_columns(part) + 63u - t) / 64u * 64u;
}

// Cosine and sine of pair i.
fn turn_of(part: Part, row: u32, i: u32) -> vec2<f32> {
  let table = step[kStepRotationsBegin] +
    2u * (row * step[kStepRotationPairs] + part.rope_first + i);
  return bitcast<vec2<f32>>(vec2(step[table], step[table + 1u])) * part.rope_scale;
}

fn input_of(part: Part, row: u32, head: u32) -> u32 {
  return part.in_base + row * part.in_stride + head * op.head_columns;
}

fn loaded_ahead(part: Part, row: u32, head: u32, t: u32) -> Ahead {
  let input = input_of(part, row, head) + t;
  var ahead = Ahead(vec2(act[input], act[input + 64u]), vec2(0.0), vec2(0.0));
  if (part.norm != kNone) {
    let at = part.norm + first_normed(part, t) - skipped_columns(part);
    ahead.weights = vec2(vectors[at], vectors[at + 64u]);
  }
  if (t < part.rope_pairs) {
    ahead.turn = turn_of(part, row, t);
  }
  return ahead;
}

// Each of the kHeads heads has 64 threads `t`, and its values begin at kHeadSpan h; a thread looks
// at the values that it has written itself. All threads of the workgroup call this; those of no
// head do nothing. Sums are taken over runs of 8 threads, then over the runs.
fn normalise(part: Part, h: u32, t: u32, ahead: Ahead) {
  let skipped = skipped_columns(part);
  let own = first_normed(part, t);
  let first = kHeadSpan * h;
  let is_mine = h < kHeads;
  if (is_mine) {
    var sum = 0.0;
    for (var d = own; d < op.head_columns; d += 64u) {
      sum = fma(head_values[first + d], head_values[first + d], sum);
    }
    squares[64u * h + t] = sum;
  }
  workgroupBarrier();
  if (is_mine && t < 8u) {
    var sum = squares[64u * h + 8u * t];
    for (var i = 1u; i < 8u; i++) {
      sum = sum + squares[64u * h + 8u * t + i];
    }
    runs_of_squares[8u * h + t] = sum;
  }
  workgroupBarrier();
  if (is_mine && part.norm != kNone) {
    var sum = runs_of_squares[8u * h];
    for (var i = 1u; i < 8u; i++) {
      sum = sum + runs_of_squares[8u * h + i];
    }
    let inverse = 1.0 / sqrt(sum / f32(op.head_columns - skipped) + part.epsilon);
    for (var d = own; d < op.head_columns; d += 64u) {
      var weight = select(ahead.weights.x, ahead.weights.y, d == own + 64u);
      if (d > own + 64u) {
        weight = vectors[part.norm + d - skipped];
      }
      head_values[first + d] = head_values[first + d] * inverse * weight;
    }
  }
}

fn rotate(part: Part, row: u32, h: u32, t: u32, ahead: Ahead) {
  let first = kHeadSpan * h;
  let pairs = select(0u, part.rope_pairs, h < kHeads);
  for (var i = t; i < pairs; i += 64u) {
    var turn = ahead.turn;
    if (i > t) {
      turn = turn_of(part, row, i);
    }
    let at_a = first + select(i, 2u * i, part.interleaved == 1u);
    let at_b = first + select(i + part.rope_pairs, 2u * i + 1u, part.interleaved == 1u);
    let a = head_values[at_a];
    let b = head_values[at_b];
    head_values[at_a] = fma(a, turn.x, -(b * turn.y));
    head_values[at_b] = fma(b, turn.x, a * turn.y);
  }
}

// Head `head` of the part's input, normalised and rotated, to head_values.
fn make_head(part: Part, row: u32, head: u32, h: u32, t: u32, ahead: Ahead) {
  if (h < kHeads) {
    for (var d = t; d < op.head_columns; d += 64u) {
      var value = select(ahead.values.x, ahead.values.y, d == t + 64u);
      if (d > t + 64u) {
        value = act[input_of(part, row, head) + d];
      }
      head_values[kHeadSpan * h + d] = value;
    }
  }
  normalise(part, h, t, ahead);
  workgroupBarrier();
  rotate(part, row, h, t, ahead);
  workgroupBarrier();
}

// Columns 2 pair and 2 pair + 1 of head h; past the last column 0.
fn made_pair(h: u32, pair: u32) -> vec2<f32> {
  let at = kHeadSpan * h + 2u * pair;
  return vec2(head_values[at], select(0.0, head_values[at + 1u], 2u * pair + 1u < op.head_columns));
}
