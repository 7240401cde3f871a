// Experts that are added up by whoever has some of them lie on a grid of fixed-point numbers, where
// the order of a sum changes no bit (src/kernels/sum_grid.h):
//   x -> step * clamp(x / step rounded to the nearest, ties to even, -limit, limit)
// `op.grid` is the step as f32, whose fraction is 0, with the limit in the fraction's place. The
// exponents of step and 1 / step add up to 254. A NaN stays one: `clamp` may give anything for it.
const kExponent = 0x7f800000u;

fn on_grid(x: f32) -> f32 {
  if (!kOnGrid) {
    return x;
  }
  let step = op.grid & kExponent;
  let limit = f32(op.grid & 0x7fffffu);
  var steps = x * bitcast<f32>(0x7f000000u - step);
  steps = select(steps, limit, steps > limit);
  steps = select(steps, -limit, steps < -limit);
  return round(steps) * bitcast<f32>(step);
}
