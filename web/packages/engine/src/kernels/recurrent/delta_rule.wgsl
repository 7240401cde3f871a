// The gated delta rule: a workgroup takes 64 columns of a value head through a whole run, a thread
// a column s of S, which stays in registers. Of a row with query q, key k, value v, and scalars
// beta and kept:
//
//   s = kept * s         change = beta * (v - (s . k) / |k|)
//   s = s + change * k / |k|            out = (s . q) / |q|
//
// One row follows from the other, so what counts is how long a thread takes for a row. A sum has
// four parts that do not wait for each other, columns 0 4 8 ... | 1 5 9 ... | ... And what a row
// needs is brought while the row before it is computed: two rows have places in workgroup memory.
const kPieces = 2u * kRegisters;  // of four columns: the query's, then the key's
const kSquares = 4u * kSquareQuarters;  // places of a vector's sums of squares; the last may be 0

var<workgroup> pieces: array<vec4<f32>, 2u * kPieces>;
var<workgroup> squares: array<f32, 4u * kSquares>;

fn column_at(base: u32, column: u32) -> f32 {
  if (column < kKeyColumns) {
    return act[base + column];
  }
  return 0.0;
}

// Piece p of a row's query and key.
fn load_piece(row: u32, key_head: u32, p: u32) -> vec4<f32> {
  if (p >= kPieces) {
    return vec4(0.0);
  }
  let is_key = p >= kRegisters;
  let base = select(op.q_base + row * op.q_stride, op.k_base + row * op.k_stride, is_key) +
    key_head * kKeyColumns;
  let first = 4u * select(p, p - kRegisters, is_key);
  return vec4(column_at(base, first), column_at(base, first + 1u), column_at(base, first + 2u),
              column_at(base, first + 3u));
}

fn store_piece(piece: vec4<f32>, half: u32, p: u32) {
  if (p >= kPieces) {
    return;
  }
  pieces[kPieces * half + p] = piece;
  let at = select(p, kSquares + p - kRegisters, p >= kRegisters);
  squares[2u * kSquares * half + at] =
    fma(piece.w, piece.w, fma(piece.z, piece.z, fma(piece.y, piece.y, piece.x * piece.x)));
}

fn four_squares(first: u32) -> vec4<f32> {
  return vec4(squares[first], squares[first + 1u], squares[first + 2u], squares[first + 3u]);
}

fn sum_of(parts: vec4<f32>) -> f32 {
  return (parts.x + parts.y) + (parts.z + parts.w);
}

// 1 / sqrt(sum of squares + 1e-6) of query and key.
fn inverse_norms(half: u32) -> vec2<f32> {
  let query = 2u * kSquares * half;
  let key = query + kSquares;
  var of_query = vec4(0.0);
  var of_key = vec4(0.0);
//* each i of kSquareQuarters
  of_query = of_query + four_squares(query + 4u * $iu);
  of_key = of_key + four_squares(key + 4u * $iu);
//* end
  return vec2(1.0) / sqrt(vec2(sum_of(of_query), sum_of(of_key)) + vec2(1e-6));
}

// Row m of the state's column that begins at `base`.
fn state_at(run: StateRun, base: u32, m: u32) -> f32 {
  if (m < kKeyColumns) {
    return state_value(run, base + m * op.value_columns);
  }
  return 0.0;
}

fn state_of(run: StateRun, base: u32, m: u32) -> vec4<f32> {
  return vec4(state_at(run, base, m), state_at(run, base, m + 1u), state_at(run, base, m + 2u),
              state_at(run, base, m + 3u));
}

fn keep_state(base: u32, m: u32, value: f32) {
  if (m < kKeyColumns) {
    kv[base + m * op.value_columns] = value;
  }
}

// Value, time step and beta of a row as they stand in `act`: what is made of them waits for them.
fn load_terms(row: u32, head: u32, own: u32) -> vec3<f32> {
  return vec3(act[op.v_base + row * op.v_stride + head * op.value_columns + own],
              act[op.a_base + row * op.a_stride + head], act[op.b_base + row * op.b_stride + head]);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = workgroup.y;
  let run = state_run(workgroup.z);
  let column = 64u * workgroup.x + t;
  let is_own = column < op.value_columns;
  let own = min(column, op.value_columns - 1u);
  var key_head = head / (op.value_heads / op.key_heads);
  if (op.tiled != 0u) {
    key_head = head % op.key_heads;
  }
  let state_base = head * kKeyColumns * op.value_columns + own;
  let scale = 1.0 / sqrt(f32(kKeyColumns));
//* each m of kRegisters
  var s$m = state_of(run, state_base, 4u * $mu);
//* end
  let end = run.first_row + run.rows;
//* each i of kEach
  var piece_$i = load_piece(run.first_row, key_head, t + 64u * $iu);
//* end
  var terms = load_terms(run.first_row, head, own);
  for (var row = run.first_row; row < end; row++) {
    let half = row & 1u;
    let next = min(row + 1u, end - 1u);
//* each i of kEach
    store_piece(piece_$i, half, t + 64u * $iu);
    piece_$i = load_piece(next, key_head, t + 64u * $iu);
//* end
    let now = terms;
    terms = load_terms(next, head, own);
    workgroupBarrier();
    let query = kPieces * half;
    let key = query + kRegisters;
    let norms = inverse_norms(half);
    let kept = exp(vectors[op.decay + head] * softplus(now.y + vectors[op.dt_bias + head]));
    let beta = sigmoid(now.z);
    var read = vec4(0.0);
//* each m of kRegisters
    s$m = s$m * kept;
    read = fma(s$m, pieces[key + $mu], read);
//* end
    let change = beta * (now.x - sum_of(read) * norms.y) * norms.y;
    var out = vec4(0.0);
//* each m of kRegisters
    s$m = fma(pieces[key + $mu], vec4(change), s$m);
    out = fma(s$m, pieces[query + $mu], out);
//* end
    if (is_own) {
      act[op.out_base + row * op.out_stride + head * op.value_columns + own] =
        sum_of(out) * (norms.x * scale);
    }
  }
  if (is_own) {
    let after = run.after + state_base;
//* each m of kRegisters
    keep_state(after, 4u * $mu, s$m.x);
    keep_state(after, 4u * $mu + 1u, s$m.y);
    keep_state(after, 4u * $mu + 2u, s$m.z);
    keep_state(after, 4u * $mu + 3u, s$m.w);
//* end
  }
}
