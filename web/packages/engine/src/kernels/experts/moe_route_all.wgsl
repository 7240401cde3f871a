// The route of a row that takes every expert in order with weight 1: the groups of an MLP
// (src/program/neuron_groups.h). Logits are not looked at.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let out = op.out_base + id.y * op.out_stride;
  if (id.x < op.experts) {
    act[out + id.x] = f32(id.x);
    act[out + op.top_k + id.x] = 1.0;
  }
}
