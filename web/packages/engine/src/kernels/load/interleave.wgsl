// Groups of rows that need no padding, every `group_step`-th of the result: gate and up, whose
// groups alternate. Four words a thread, as they are.
@group(0) @binding(1) var<uniform> op: Op;
@group(0) @binding(3) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> packed: array<vec4<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let index = id.y * op.threads_x + id.x;
  let quads = op.words >> 2u;
  let group = index / quads;
  if (group >= op.groups) {
    return;
  }
  packed[(op.out_base >> 2u) + group * op.group_step * quads + index % quads] = source[index];
}
