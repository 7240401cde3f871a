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

// Each of the kHeads heads has 64 threads `t`, and its values begin at kHeadSpan h; a thread looks
// at the values that it has written itself. All threads of the workgroup call this; those of no
// head do nothing. Sums are taken over runs of 8 threads, then over the runs.
fn normalise(part: Part, h: u32, t: u32) {
  let skipped = select(0u, op.key_norm_first, part.goes_to == kHeadsToKeys);
  let own = t + (skipped + 63u - t) / 64u * 64u;  // the first column of the thread's that counts
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
      let weight = vectors[part.norm + d - skipped];
      head_values[first + d] = head_values[first + d] * inverse * weight;
    }
  }
}

fn rotate(part: Part, row: u32, h: u32, t: u32) {
  let first = kHeadSpan * h;
  let table = step[kStepRotationsBegin] +
    2u * (row * step[kStepRotationPairs] + part.rope_first);
  let pairs = select(0u, part.rope_pairs, h < kHeads);
  for (var i = t; i < pairs; i += 64u) {
    let cosine = bitcast<f32>(step[table + 2u * i]) * part.rope_scale;
    let sine = bitcast<f32>(step[table + 2u * i + 1u]) * part.rope_scale;
    let at_a = first + select(i, 2u * i, part.interleaved == 1u);
    let at_b = first + select(i + part.rope_pairs, 2u * i + 1u, part.interleaved == 1u);
    let a = head_values[at_a];
    let b = head_values[at_b];
    head_values[at_a] = fma(a, cosine, -(b * sine));
    head_values[at_b] = fma(b, cosine, a * sine);
  }
}

// Head `head` of the part's input, normalised and rotated, to head_values.
fn make_head(part: Part, row: u32, head: u32, h: u32, t: u32) {
  if (h < kHeads) {
    let input = part.in_base + row * part.in_stride + head * op.head_columns;
    for (var d = t; d < op.head_columns; d += 64u) {
      head_values[kHeadSpan * h + d] = act[input + d];
    }
  }
  normalise(part, h, t);
  workgroupBarrier();
  rotate(part, row, h, t);
  workgroupBarrier();
}

// Columns 2 pair and 2 pair + 1 of head h; past the last column 0.
fn made_pair(h: u32, pair: u32) -> vec2<f32> {
  let at = kHeadSpan * h + 2u * pair;
  return vec2(head_values[at], select(0.0, head_values[at + 1u], 2u * pair + 1u < op.head_columns));
}
