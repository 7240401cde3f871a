// RMS norm and rotation of the heads of one or more views, and appending keys and values to their
// pages: what stands between the q/k/v products and attention, in one dispatch. One head of one row
// a workgroup. Cosines and sines come with the step: WGSL's own are too imprecise for positions.
struct Part {
  in_base: u32,
  in_stride: u32,
  out_base: u32,
  out_stride: u32,
  heads: u32,
  norm: u32,  // in `vectors`, or kNone
  rope_first: u32,  // column in the step's table
  rope_half: u32,  // pairs that are rotated
  interleaved: u32,
  rope_scale: f32,
  epsilon: f32,
  goes_to: u32,  // 0: out, 1: key pages, 2: value pages
}

struct Op {
  rows_at: u32,
  head_columns: u32,
  kv_heads: u32,
  part_count: u32,
  parts: array<Part, 3>,
}

var<workgroup> head_values: array<f32, 1024>;
var<workgroup> squares: array<f32, 64>;

fn normalise(part: Part, t: u32) {
  var sum = 0.0;
  for (var d = t; d < op.head_columns; d += 64u) {
    sum = fma(head_values[d], head_values[d], sum);
  }
  squares[t] = sum;
  workgroupBarrier();
  for (var width = 32u; width > 0u; width >>= 1u) {
    if (t < width) {
      squares[t] = squares[t] + squares[t + width];
    }
    workgroupBarrier();
  }
  if (part.norm == kNone) {
    return;
  }
  let inverse = 1.0 / sqrt(squares[0] / f32(op.head_columns) + part.epsilon);
  for (var d = t; d < op.head_columns; d += 64u) {
    head_values[d] = head_values[d] * inverse * vectors[part.norm + d];
  }
}

fn rotate(part: Part, row: u32, t: u32) {
  let table = step[1] + 2u * (row * step[2] + part.rope_first);
  for (var i = t; i < part.rope_half; i += 64u) {
    let cosine = bitcast<f32>(step[table + 2u * i]) * part.rope_scale;
    let sine = bitcast<f32>(step[table + 2u * i + 1u]) * part.rope_scale;
    let at_a = select(i, 2u * i, part.interleaved == 1u);
    let at_b = select(i + part.rope_half, 2u * i + 1u, part.interleaved == 1u);
    let a = head_values[at_a];
    let b = head_values[at_b];
    head_values[at_a] = fma(a, cosine, -(b * sine));
    head_values[at_b] = fma(b, cosine, a * sine);
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.y;
  var head = workgroup.x;
  var index = 0u;
  while (index + 1u < op.part_count && head >= op.parts[index].heads) {
    head -= op.parts[index].heads;
    index++;
  }
  let part = op.parts[index];
  let input = part.in_base + row * part.in_stride + head * op.head_columns;
  for (var d = t; d < op.head_columns; d += 64u) {
    head_values[d] = act[input + d];
  }
  workgroupBarrier();
  normalise(part, t);
  workgroupBarrier();
  rotate(part, row, t);
  workgroupBarrier();
  if (part.goes_to == 0u) {
    let out = part.out_base + row * part.out_stride + head * op.head_columns;
    for (var d = t; d < op.head_columns; d += 64u) {
      act[out + d] = head_values[d];
    }
    return;
  }
  let position = row_position(row);
  let page = step[row_pages(row) + (position >> 5u)];
  for (var pair = t; pair < kv_pairs(); pair += 64u) {
    let second = select(0.0, head_values[2u * pair + 1u], 2u * pair + 1u < op.head_columns);
    let value = vec2(head_values[2u * pair], second);
    if (part.goes_to == 1u) {
      store_key(page, head, pair, position & 31u, value);
    } else {
      store_value(page, head, pair, position & 31u, value);
    }
  }
}
