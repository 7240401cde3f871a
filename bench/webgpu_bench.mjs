// The WebGPU engine under Node: read bandwidth, prefill, decode, WeInfer's ablation and interval
// study, a stage's fixed cost; random q4 weights of Qwen3's exact shapes. Prints one line of JSON a
// figure and a table at the end. docs/performance.md has results and how to read them.
//
//   ./dev bench webgpu [--sizes 0.6B,1.7B] [--seconds 300] [--context 128] [--tokens 64]
//
// --engine FILE and --dawn FILE take the bundle and Dawn's addon from elsewhere (a machine without
// npm); --f16 asks Dawn for shader-f16 on NVIDIA.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { readBandwidth } from "./webgpu/bandwidth.mjs";
import { benchSize } from "./webgpu/model_bench.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { values: options } = parseArgs({
  options: {
    engine: { type: "string" },
    dawn: { type: "string" },
    sizes: { type: "string", default: "tiny" },
    seconds: { type: "string", default: "300" },
    context: { type: "string", default: "128" },
    prefill: { type: "string", default: "512" },
    tokens: { type: "string", default: "64" },
    f16: { type: "boolean", default: false },
    weft: { type: "string" }, // ./dev bench hands it to every benchmark
  },
});

async function loadEngine() {
  if (options.engine) return await import(pathToFileURL(options.engine).href);
  const { bundleEngine } = await import("./webgpu/bundle.mjs");
  return await import(pathToFileURL(await bundleEngine()).href);
}

function openDawn() {
  const require = createRequire(join(root, "web/package.json"));
  const { create } = options.dawn ? require(options.dawn) : require("webgpu");
  const toggles = "enable-dawn-features=vulkan_enable_f16_on_nvidia,allow_unsafe_apis";
  return create(options.f16 ? ["backend=vulkan", toggles] : ["backend=vulkan"]);
}

const begin = performance.now();
const engine = await loadEngine();
const gpu = openDawn(); // kept: Dawn dies when its instance is collected before its devices
const { device, description } = await engine.openGpu(gpu);
const say = (figure) => console.log(JSON.stringify(figure));
say({ device: description });
const bandwidth = await readBandwidth(device);
say({ readGBps: bandwidth });
device.destroy();

for (const size of options.sizes.split(",")) {
  const left = Number(options.seconds) - (performance.now() - begin) / 1000;
  if (left < 10) {
    say({ size, skipped: "no time left" });
    continue;
  }
  const opened = await engine.openGpu(gpu);
  try {
    await benchSize(engine, opened, size, {
      bandwidth,
      contexts: options.context.split(",").map(Number),
      prefills: options.prefill.split(",").filter(Boolean).map(Number),
      tokens: Number(options.tokens),
      say,
    });
  } catch (error) {
    say({ size, failed: String(error) });
  }
  opened.device.destroy();
}
process.exit(0); // Dawn keeps threads
