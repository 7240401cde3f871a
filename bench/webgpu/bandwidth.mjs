import { median } from "./times.mjs";

// What a plain kernel reads from GPU memory: the bar that decoding is measured against. And the
// work that keeps a GPU awake: an idle one falls back to a fraction of its clock within two seconds
// (an H200 from 1,980 to 345 MHz) and short bursts do not wake it, so that what is measured after a
// pause, a load or compilations comes out up to three times too slow.
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

// Reads until the GPU has been busy for `ms`. To be called before what is timed.
export async function wake(device, ms) {
  const reading = reader(device);
  const begin = performance.now();
  let count = 1;
  while (performance.now() - begin < ms) {
    const took = await reading.read(count);
    if (took < 20) count *= 2;
  }
  reading.destroy();
}

// GB/s, the median of some runs.
export async function readBandwidth(device) {
  await wake(device, 1000);
  const { bytes, read, destroy } = reader(device);
  await read(1);
  // 40 times, fewer on slow devices.
  const repeats = Math.max(1, Math.min(40, Math.floor(100 / (await read(1)))));
  const runs = [];
  for (let i = 0; i < 5; ++i) runs.push((await read(1 + repeats)) - (await read(1)));
  destroy();
  return Number(((repeats * bytes) / median(runs) / 1e6).toPrecision(4));
}

// `read(n)`: ms that reading `bytes` n times takes.
function reader(device) {
  const most = Math.min(kBytes, device.limits.maxStorageBufferBindingSize >>> 0);
  const values = device.createBuffer({ size: most, usage: 0x80 });
  const sums = device.createBuffer({ size: 4096, usage: 0x80 });
  const pipeline = device.createComputePipeline({
    layout: "auto",
    compute: { module: device.createShaderModule({ code: kCode }), entryPoint: "main" },
  });
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [values, sums].map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  const workgroups = Math.floor(most / (16 * 8192));
  const read = async (repeats) => {
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
  const destroy = () => [values, sums].forEach((buffer) => buffer.destroy());
  return { bytes: workgroups * 16 * 8192, read, destroy };
}
