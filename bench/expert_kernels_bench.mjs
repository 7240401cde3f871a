// What an expert costs on a GPU (table 2 of moex-expert-disaggregation): gate and up with the
// activation, down, and the whole call with its rows written and read back, in q4, for the paper's
// shape and Qwen3-30B-A3B's, one token and eight. Our engine under Dawn for Node. A line of JSON a
// row, a table last. Kernels are timed as differences between many dispatches and one, so that
// neither submission nor waiting counts; calls as medians of what their caller sees.
//
//   ./dev bench expert-kernels [--experts 8] [--rounds 5]
//     [--kit DIR] [--engine FILE] [--hardware]     (as bench/webgpu_bench.mjs)
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const kShapes = [
  { name: "paper", hidden: 4096, width: 2048 },
  { name: "Qwen3-30B-A3B", hidden: 2048, width: 768 },
];
const kTokens = [1, 8];
const kLayer = 1;
const kSoftwareDriver = "/usr/lib/chromium/vk_swiftshader_icd.json";
const kHalves = "enable-dawn-features=vulkan_enable_f16_on_nvidia,allow_unsafe_apis";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const require = createRequire(import.meta.url);
const { values } = parseArgs({
  options: {
    experts: { type: "string", default: "8" },
    rounds: { type: "string", default: "5" },
    kit: { type: "string" },
    engine: { type: "string" },
    hardware: { type: "boolean", default: false },
    weft: { type: "string" }, // ./dev bench hands it to every benchmark
  },
});
const experts = Number(values.experts);
const rounds = Number(values.rounds);

const median = (all) => [...all].sort((a, b) => a - b)[all.length >> 1];

// A layer that is nothing but its experts, of which the shard takes all. A digest's first byte
// tells RandomModel what its bytes are: 1 nibbles, 2 scales.
function layerOf({ hidden, width }) {
  let count = 0;
  const part = (kind, byteCount) => [
    { digest: `0${kind}${String(++count).padStart(62, "0")}`, offset: 0, byteCount },
  ];
  const weight = (rows, columns) => ({
    name: `[${experts}, ${rows}, ${columns}]`,
    dtype: 17, // q4
    shape: [experts, rows, columns],
    data: part(1, (experts * rows * columns) / 2),
    scale: part(2, (experts * rows * columns) / 16),
    zero: [],
  });
  const view = (buffer, columns) => ({ buffer, firstColumn: 0, columns });
  const op = {
    kind: "moeExperts", in: view(0, hidden), route: view(1, 2), out: view(2, hidden), experts,
    topK: 1, activation: 0, gateUp: 0, down: 1, gateUpBias: null, downBias: null,
  };
  const weights = [weight(2 * width, hidden), weight(hidden, width)];
  return { layerIndex: kLayer, buffers: [], weights, ops: [op], input: 0, output: 2 };
}

async function openDawn() {
  if (!values.hardware) process.env.VK_ICD_FILENAMES ??= kSoftwareDriver;
  const dawnModule = values.kit
    ? join(values.kit, "dawn.node") : join(root, "web/node_modules/webgpu");
  const toggles = values.hardware ? [kHalves] : [];
  const options = ["backend=vulkan", ...toggles];
  if (values.kit) return require(dawnModule).create(options);
  return (await import(pathToFileURL(join(dawnModule, "index.js")).href)).create(options);
}

class Bench {
  #module;
  #gpu;
  #options;

  static async open() {
    const bench = new Bench();
    const { bundleEngine } = await import("./webgpu/bundle.mjs");
    const file = values.engine ?? (await bundleEngine());
    bench.#module = await import(pathToFileURL(file).href);
    const { kDefaultOptions, MemoryTuneStore, openGpu, tuneFor, tunedText } = bench.#module;
    bench.dawn = await openDawn(); // kept: Dawn dies when it is collected before its devices
    bench.#gpu = await openGpu(bench.dawn);
    const tuned = await tuneFor(bench.#gpu, kDefaultOptions, new MemoryTuneStore());
    bench.#options = { ...kDefaultOptions, tuning: tuned.arithmetic };
    console.log(JSON.stringify({ kernels: tunedText(tuned) }));
    return bench;
  }

  // A row of `tokens` calls on as many different experts, as a token's message names them.
  async measure(shape, tokens) {
    const { WebGpuEngine, RandomModel, expertProgram } = this.#module;
    const engine = new WebGpuEngine(this.#gpu, this.#options);
    const all = Array.from({ length: experts }, (_, expert) => expert);
    const program = expertProgram(layerOf(shape), all);
    await engine.loadProgram(program, new RandomModel({ ...shape, layers: 1 }));
    const call = this.#callOf(engine, shape, tokens);
    await call();
    const dispatches = engine.machine.dispatchesOf(kLayer).layer;
    const [gateUp, down] = [await this.#us(dispatches[0], tokens),
      await this.#us(dispatches[1], tokens)];
    const times = [];
    for (let i = 0; i < 4 * rounds; ++i) times.push(await timed(call));
    const whole = 1e3 * median(times);
    engine.freeBuffers();
    return { gateUp, down, whole, rest: Math.max(0, whole - gateUp - down) };
  }

  #callOf(engine, { hidden }, tokens) {
    let generation = 0;
    const rows = new Float32Array(tokens * (hidden + 2));
    for (let token = 0; token < tokens; ++token) {
      const at = token * (hidden + 2);
      for (let i = 0; i < hidden; ++i) rows[at + i] = Math.sin(at + i);
      rows.set([token % experts, 1], at + hidden);
    }
    return async () => {
      const run = {
        session: 1, generation: ++generation, firstPosition: 0, count: tokens,
        output: { kind: "hidden" },
      };
      const layers = { first: kLayer, end: kLayer + 1 };
      await engine.step({ layers, runs: [run], tokenIds: new Int32Array(0), hidden: rows });
    };
  }

  // One dispatch, of as many as take some 20 ms.
  async #us(dispatch, rows) {
    const grid = dispatch.grid({ rows, chunks: 1 });
    const first = await this.#repeat(dispatch, grid, 1);
    const count = Math.min(500, Math.max(3, Math.ceil(20 / Math.max(first, 0.01))));
    const runs = [];
    for (let i = 0; i < rounds; ++i) {
      const many = await this.#repeat(dispatch, grid, count + 1);
      runs.push((1e3 * (many - (await this.#repeat(dispatch, grid, 1)))) / count);
    }
    return median(runs);
  }

  #repeat({ pipeline, group }, grid, count) {
    const { device } = this.#gpu;
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < count; ++i) pass.dispatchWorkgroups(...grid);
    pass.end();
    return timed(async () => {
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
    });
  }
}

async function timed(work) {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

const bench = await Bench.open();
const lines = [
  "| shape | tokens | gate, up, activation | down | write, copy, check, readback | call |",
  "|---|---:|---:|---:|---:|---:|",
];
for (const shape of kShapes) {
  for (const tokens of kTokens) {
    const us = await bench.measure(shape, tokens);
    console.log(JSON.stringify({ shape: shape.name, tokens, us }));
    const cells = [us.gateUp, us.down, us.rest, us.whole].map((it) => `${it.toFixed(1)} us`);
    lines.push(`| ${shape.name} | ${tokens} | ${cells.join(" | ")} |`);
  }
}
console.log(lines.join("\n"));
process.exit(0); // Dawn keeps threads
