// What every kernel shares: the bindings of the one layout, the arena of a step's parameters, and
// the rounding of values. A kernel defines `struct Op`, whose first field is `rows_at`.
//
// Identity rule: a row's bits depend on neither its neighbours nor the chunking. Sums are therefore
// taken in one fixed order, written as explicit fma so that no compiler contracts them otherwise.

@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<uniform> op: Op;
@group(0) @binding(4) var<storage, read> wdata: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> wscale: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> aux: array<u32>;

// Rows [0, base + row * stride + column] of a view.
struct View {
  base: u32,
  stride: u32,
}

// Eight neighbouring values, or one of each row of a group.
struct Eight {
  low: vec4<f32>,
  high: vec4<f32>,
}

fn row_count() -> u32 {
  return step[op.rows_at];
}
// The words of a row are those of RowWord (common/numbers.ts).
fn row_word(row: u32, word: u32) -> u32 {
  return step[kStepRowsBegin + kRowWords * row + word];
}
fn row_token(row: u32) -> u32 {
  return row_word(row, kRowToken);
}
fn row_position(row: u32) -> u32 {
  return row_word(row, kRowPosition);
}
// Where the row's session has its page numbers in `step`.
fn row_pages(row: u32) -> u32 {
  return row_word(row, kRowPagesBegin);
}
// Which row of the residual stream row `row` of the head is.
fn row_source(row: u32) -> u32 {
  return row_word(row, kRowSource);
}

// Whose chosen tokens and sampler are the row's in whole-model decoding.
fn row_seat(row: u32) -> u32 {
  return row_word(row, kRowSeat);
}

fn is_finite(value: f32) -> bool {
  return (bitcast<u32>(value) & 0x7f800000u) != 0x7f800000u;
}

// The bits of the nearest f16, ties to even (tensor/half.h).
fn to_half(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return sign | 0x7e00u;
  }
  if (magnitude >= 0x477ff000u) {
    return sign | 0x7c00u;
  }
  if (magnitude < 0x38800000u) {
    let shifted = bitcast<f32>(magnitude) + 0.5;
    return sign | (bitcast<u32>(shifted) - 0x3f000000u);
  }
  let rounded = magnitude + 0xfffu + ((magnitude >> 13u) & 1u);
  return sign | ((rounded - 0x38000000u) >> 13u);
}

fn from_half(half: u32) -> f32 {
  let sign = (half & 0x8000u) << 16u;
  let exponent = (half >> 10u) & 0x1fu;
  let fraction = half & 0x3ffu;
  if (exponent == 31u) {
    return bitcast<f32>(sign | 0x7f800000u | (fraction << 13u));
  }
  if (exponent == 0u) {
    return bitcast<f32>(sign | bitcast<u32>(f32(fraction) * 5.9604644775390625e-8));
  }
  return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (fraction << 13u));
}

// What a trip over the wire leaves of a value.
fn round_value(value: f32, kind: u32) -> f32 {
  if (kind == kRoundingF16) {
    return from_half(to_half(value));
  }
  if (kind == kRoundingBf16) {
    let bits = bitcast<u32>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
      return value;
    }
    return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
  }
  return value;
}
