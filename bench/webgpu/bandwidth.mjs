import { median } from "./times.mjs";

// What a plain kernel reads from GPU memory: the bar that decoding is measured against.
const kBytes = 256 << 20;
const kCode = `
@group(0) @binding(0) var<storage, read> values: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  var sum = vec4<u32>();
  let base = w.x * 8192u + t;
  for (var i = 0u; i < 32u; i++) {
    sum += values[base + 256u * i];
  }
  if (sum.x + sum.y + sum.z + sum.w == 12345u) {
    sums[t] = 1u;
  }
}`;

// GB/s, the median of some runs.
export async function readBandwidth(device) {
  const bytes = Math.min(kBytes, device.limits.maxStorageBufferBindingSize >>> 0);
  const values = device.createBuffer({ size: bytes, usage: 0x80 });
  const sums = device.createBuffer({ size: 4096, usage: 0x80 });
  const pipeline = device.createComputePipeline({
    layout: "auto",
    compute: { module: device.createShaderModule({ code: kCode }), entryPoint: "main" },
  });
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [values, sums].map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  const workgroups = Math.floor(bytes / (16 * 8192));
  const time = async (repeats) => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < repeats; ++i) pass.dispatchWorkgroups(workgroups);
    pass.end();
    const begin = performance.now();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
    return performance.now() - begin;
  };
  await time(1);
  // 40 times, fewer on slow devices.
  const repeats = Math.max(1, Math.min(40, Math.floor(100 / (await time(1)))));
  const runs = [];
  for (let i = 0; i < 5; ++i) runs.push((await time(1 + repeats)) - (await time(1)));
  values.destroy();
  return Number(((repeats * workgroups * 16 * 8192) / median(runs) / 1e6).toPrecision(4));
}
