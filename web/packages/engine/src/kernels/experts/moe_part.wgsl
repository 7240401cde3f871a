// The part of each route that names experts [first_expert, first_expert + expert_count), counted
// from there: the others are expert 0 with weight 0. For layers whose experts do not fit one
// binding (dispatch/experts.ts).
struct Op {
  rows_at: u32,
  route_base: u32,
  route_stride: u32,
  out_base: u32,
  out_stride: u32,
  top_k: u32,
  first_expert: u32,
  expert_count: u32,
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let slot = id.x;
  if (slot >= op.top_k) {
    return;
  }
  let route = op.route_base + id.y * op.route_stride + slot;
  let out = op.out_base + id.y * op.out_stride + slot;
  let expert = u32(act[route]);
  let is_here = expert >= op.first_expert && expert < op.first_expert + op.expert_count;
  act[out] = select(0.0, f32(expert - op.first_expert), is_here);
  act[out + op.top_k] = select(0.0, act[route + op.top_k], is_here);
}
