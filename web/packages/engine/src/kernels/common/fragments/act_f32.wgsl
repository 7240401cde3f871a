// All kernels but the products read `act` and `vectors` one value at a time.
@group(0) @binding(2) var<storage, read_write> act: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
