// The part of each route that names experts [first_expert, first_expert + expert_count), counted
// from there: the others are expert 0 with weight 0. For layers whose experts do not fit one
// binding (dispatch/experts.ts).
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
