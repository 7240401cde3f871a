// Sums of products in integers without barriers: one invocation walks all classes in the order that
// matvec_blocks.wgsl defines, so that the bits are its.
fn added(a: Eight, b: Eight) -> Eight {
  return Eight(a.low + b.low, a.high + b.high);
}

fn scaled_dots(group: u32, b: u32, x: Input) -> Eight {
  let zeros = load_zeros(group * op.blocks + b);
  var dots: array<f32, 8>;
  for (var r = 0u; r < 8u; r++) {
    dots[r] = block_dot(unpacked(load_block(8u * group + r, b)), zeros >> (4u * r), x) * x.scale;
  }
  return Eight(vec4(dots[0], dots[1], dots[2], dots[3]),
               vec4(dots[4], dots[5], dots[6], dots[7]));
}

// The 8 rows of a group times a row of inputs.
fn group_sum(group: u32, row: u32) -> Eight {
  let base = in_base() + row * op.in_stride;
  var total = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
  for (var c = 0u; c < kClasses; c++) {
    var sum = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
    for (var b = c; b < op.blocks; b += kClasses) {
      let x = prepared(input_piece(base, 4u * b), input_piece(base, 4u * b + 1u),
                       input_piece(base, 4u * b + 2u), input_piece(base, 4u * b + 3u));
      let dots = scaled_dots(group, b, x);
      let scales = load_scales(group * op.blocks + b);
      sum = Eight(fma(dots.low, scales.low, sum.low), fma(dots.high, scales.high, sum.high));
    }
    total = added(total, sum);
  }
  return total;
}

fn inverse_rms(row: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  let base = in_base() + row * op.in_stride;
  var total = 0.0;
  for (var c = 0u; c < kClasses; c++) {
    var sums = vec4<f32>(0.0);
    for (var b = c; b < op.blocks; b += kClasses) {
      sums = with_squares(base, b, sums);
    }
    total = total + ((sums.x + sums.y) + (sums.z + sums.w));
  }
  return 1.0 / sqrt(total / f32(op.columns) + op.epsilon);
}
