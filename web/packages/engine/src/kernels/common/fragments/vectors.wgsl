// Products with norms or biases read `vectors` four values at a time.
@group(0) @binding(3) var<storage, read> vectors: array<vec4<f32>>;

fn vector_at(i: u32) -> f32 {
  return vectors[i >> 2u][i & 3u];
}

fn vector_eight(base: u32, k: u32) -> Eight {
  let at = base + k;
  if (k + 8u <= op.columns && (at & 3u) == 0u) {
    return Eight(vectors[at >> 2u], vectors[(at >> 2u) + 1u]);
  }
  var values: array<f32, 8>;
  for (var i = 0u; i < 8u; i++) {
    if (k + i < op.columns) {
      values[i] = vector_at(at + i);
    }
  }
  return Eight(vec4(values[0], values[1], values[2], values[3]),
               vec4(values[4], values[5], values[6], values[7]));
}
