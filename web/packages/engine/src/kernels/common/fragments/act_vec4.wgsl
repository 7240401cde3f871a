// Products, whose threads read 8 columns each, read `act` four values at a time.
@group(0) @binding(2) var<storage, read_write> act: array<vec4<f32>>;

fn act_at(i: u32) -> f32 {
  return act[i >> 2u][i & 3u];
}
fn set_act(i: u32, value: f32) {
  act[i >> 2u][i & 3u] = value;
}

// Columns k to k + 7 of a row that begins at `base`; past its last column zeros.
fn act_eight(base: u32, k: u32) -> Eight {
  let at = base + k;
  if (k + 8u <= op.columns && (at & 3u) == 0u) {
    return Eight(act[at >> 2u], act[(at >> 2u) + 1u]);
  }
  var values: array<f32, 8>;
  for (var i = 0u; i < 8u; i++) {
    if (k + i < op.columns) {
      values[i] = act_at(at + i);
    }
  }
  return Eight(vec4(values[0], values[1], values[2], values[3]),
               vec4(values[4], values[5], values[6], values[7]));
}
