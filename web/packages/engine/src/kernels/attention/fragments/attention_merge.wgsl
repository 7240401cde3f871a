// Softmax over chunks of 256 positions: what attention.wgsl and attention_combine.wgsl share, so
// that both give the same bits.
//
// A chunk leaves its largest score m, the sum l of exp(score - m) and the sum o of
// exp(score - m) * value. Two of them are put together (Milakov and Gimelshein, 2018) as
//
//   m = max(m1, m2)    l = l1 exp(m1 - m) + l2 exp(m2 - m)    o = o1 exp(m1 - m) + o2 exp(m2 - m)
//
// and the result is o / l. Scores 1, 2 | 3 leave (2, 1.368) and (3, 1); together m = 3 and
// l = 1.368 * 0.368 + 1 = 1.503, which is exp(1 - 3) + exp(2 - 3) + exp(3 - 3). A sink is a score
// without a value: all begins with m = sink, l = 1, o = 0.
const kChunk = 256u;
const kSplitHeader = 2u;

struct Softmax {
  largest: f32,
  sum: f32,
  value: vec2<f32>,
}

fn initial(head: u32) -> Softmax {
  if (op.sinks != kNone) {
    return Softmax(vectors[op.sinks + head], 1.0, vec2(0.0));
  }
  return Softmax(-3.0e38, 0.0, vec2(0.0));
}

fn merge(all: Softmax, chunk: Softmax) -> Softmax {
  let largest = max(all.largest, chunk.largest);
  let a = exp(all.largest - largest);
  let b = exp(chunk.largest - largest);
  return Softmax(largest, fma(all.sum, a, chunk.sum * b),
                 fma(all.value, vec2(a), chunk.value * b));
}

fn first_visible(position: u32) -> u32 {
  return select(position - op.window + 1u, 0u, op.window == 0u || position < op.window);
}

// Columns of a head's result.
fn out_columns() -> u32 {
  return select(op.value_columns, op.head_columns, op.value_columns == 0u);
}

// Where the partial result of a chunk lies: largest, sum, then the head's columns.
fn split_at(row: u32, head: u32, chunk: u32) -> u32 {
  let pairs = (out_columns() + 1u) >> 1u;
  return op.split_base +
    ((row * op.heads + head) * step[kStepChunks] + chunk) * (kSplitHeader + 2u * pairs);
}

fn write_head(row: u32, head: u32, pair: u32, result: Softmax) {
  let column = head * out_columns() + 2u * pair;
  let out = op.out_base + row * op.out_stride + column;
  var value = result.value / result.sum;
  let has_second = 2u * pair + 1u < out_columns();
  if (is_gated()) {
    value.x = through_gate(value.x, act[gate_at(row, column)]);
    if (has_second) {
      value.y = through_gate(value.y, act[gate_at(row, column + 1u)]);
    }
  }
  act[out] = value.x;
  if (has_second) {
    act[out + 1u] = value.y;
  }
}
