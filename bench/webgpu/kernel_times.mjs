// Where the time of a step goes, kernel by kernel, on the GPU at hand.
//
//   node bench/webgpu/kernel_times.mjs ENGINE DAWN [--rows 1,16,32,512] [--sessions] [--rounds 5]
//                                      [--context 128] [--units yes|no] PACKAGE...
//
// ENGINE is bundle.mjs's check_engine.mjs. Every package is loaded alone. A line is a kernel with
// its grid of workgroups: how often a step runs it, microseconds of one, milliseconds of all and
// their share, means. Every dispatch has a pass of its own for that, whose begin and end the GPU
// writes down. `whole` is the same step as it is, with encoding and reading back, and `gaps` what
// it takes beyond the sum. With --sessions each row is one of another session, as conversations
// are, else all are the next rows of one, behind --context positions.
import { createRequire } from "node:module";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { wake } from "./bandwidth.mjs";
import { median, timed } from "./times.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: "string", default: "1,16,32,512" },
    sessions: { type: "boolean", default: false },
    rounds: { type: "string", default: "5" },
    context: { type: "string", default: "128" },
    units: { type: "string" },
  },
});
const [enginePath, dawnPath, ...folders] = positionals;
if (folders.length === 0) {
  console.error("usage: node kernel_times.mjs ENGINE DAWN [OPTIONS] PACKAGE...");
  process.exit(2);
}
const rounds = Number(options.rounds);
const context = Number(options.context);
const kMostDispatches = 2048;
const kSlice = 512; // rows of a prompt at once
const kMapRead = 1;

const engine = await import(pathToFileURL(enginePath).href);
const { create } = createRequire(import.meta.url)(dawnPath);
// Times as the GPU has them. Dawn's instance must not go while its devices are used.
globalThis.instance = create([
  "backend=vulkan",
  "enable-dawn-features=allow_unsafe_apis",
  "disable-dawn-features=timestamp_quantization",
]);
const gpu = await engine.openGpu(globalThis.instance);
const { device } = gpu;
const tuned = await engine.tuneFor(gpu, engine.kDefaultOptions, new engine.MemoryTuneStore());
const units = options.units === undefined ? {} : { units: options.units === "yes" };
const tuning = { ...tuned.arithmetic, ...units };
console.log(`${gpu.description}: ${engine.tunedText({ ...tuned, arithmetic: tuning })}`);

const queries = device.createQuerySet({ type: "timestamp", count: 2 * kMostDispatches });
const resolved = device.createBuffer({ size: 16 * kMostDispatches, usage: 0x200 | 0x4 });

// Dispatches are written down here while it is on: label of the pipeline, grid.
let log = null;

function watch(encoder) {
  const begin = encoder.beginComputePass.bind(encoder);
  encoder.beginComputePass = (descriptor) => {
    if (!log) return begin(descriptor);
    let pipeline = null;
    let group = null;
    return {
      setPipeline: (next) => { pipeline = next; },
      setBindGroup: (_, next) => { group = next; },
      dispatchWorkgroups: (...grid) => {
        const at = 2 * log.length;
        const pass = begin({
          timestampWrites: {
            querySet: queries, beginningOfPassWriteIndex: at, endOfPassWriteIndex: at + 1,
          },
        });
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(...grid);
        pass.end();
        log.push({ label: pipeline.label, grid });
      },
      end: () => undefined,
    };
  };
  return encoder;
}
const plainEncoder = device.createCommandEncoder.bind(device);
device.createCommandEncoder = (...args) => watch(plainEncoder(...args));

// Microseconds of each dispatch of `work`, with its label.
async function logged(work) {
  log = [];
  await work();
  const done = log;
  log = null;
  const encoder = plainEncoder();
  const size = 16 * done.length;
  const back = device.createBuffer({ size, usage: 0x8 | 0x1 });
  encoder.resolveQuerySet(queries, 0, 2 * done.length, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, back, 0, size);
  device.queue.submit([encoder.finish()]);
  await back.mapAsync(kMapRead);
  const times = new BigUint64Array(back.getMappedRange().slice(0));
  back.destroy();
  return done.map((one, i) => ({ ...one, us: Number(times[2 * i + 1] - times[2 * i]) / 1000 }));
}

class Measured {
  #session = 0;

  constructor(folder) {
    this.source = new engine.PackageFolder(folder);
  }

  async load() {
    const { kDefaultOptions, WebGpuEngine } = engine;
    this.engine = new WebGpuEngine(gpu, { ...kDefaultOptions, tuning });
    await this.engine.load(this.source.range, this.source);
  }

  async #step(runs) {
    const tokenIds = runs.flatMap(({ firstPosition, count }) =>
      Array.from({ length: count }, (_, i) => (firstPosition + i) % 1000));
    await this.engine.step({
      layers: this.source.range,
      runs: runs.map((run) => ({ generation: 0, output: { kind: "argmax" }, ...run })),
      tokenIds: Int32Array.from(tokenIds),
      hidden: new Float32Array(0),
    });
  }

  async #begin() {
    const session = ++this.#session;
    for (let at = 0; at < context; at += kSlice) {
      const count = Math.min(kSlice, context - at);
      await this.#step([{ session, firstPosition: at, count }]);
    }
    return session;
  }

  // Runs a step of so many rows, again and again: new sessions take the place of those whose
  // contexts have grown.
  async stepOf(rows) {
    const count = options.sessions ? 1 : rows;
    const begin = async () => {
      const sessions = [];
      for (let i = 0; i < rows / count; ++i) sessions.push(await this.#begin());
      return { sessions, firstPosition: context };
    };
    let now = await begin();
    const step = async () => {
      const { sessions, firstPosition } = now;
      await this.#step(sessions.map((session) => ({ session, firstPosition, count })));
      now.firstPosition += count;
    };
    const again = async () => {
      if (count === 1) return;
      for (const session of now.sessions) this.engine.release(session);
      now = await begin();
    };
    return { step, again };
  }
}

function shortened(label) {
  return label.replace(/( true| false)+$/, (flags) => ` ${flags.replace(/ (.)\S*/g, "$1")}`);
}

// One line for each kernel and grid, the longest first.
function table(runs) {
  const lines = new Map();
  for (const run of runs) {
    for (const { label, grid, us } of run) {
      const key = `${shortened(label)} | ${grid.join(" x ")}`;
      const line = lines.get(key) ?? { key, times: [] };
      line.times.push(us);
      lines.set(key, line);
    }
  }
  const all = [...lines.values()].map(({ key, times }) => {
    const sum = times.reduce((total, us) => total + us, 0);
    const count = times.length / runs.length;
    return { key, count, us: sum / times.length, ms: sum / runs.length / 1000 };
  });
  return all.sort((a, b) => b.ms - a.ms);
}

for (const folder of folders) {
  const model = new Measured(folder);
  await model.load();
  for (const rows of options.rows.split(",").map(Number)) {
    const { step, again } = await model.stepOf(rows);
    await step();
    await wake(device, 300);
    const whole = [];
    const runs = [];
    for (let i = 0; i < rounds; ++i) {
      await again();
      whole.push(await timed(step));
      await again();
      runs.push(await logged(step));
    }
    const lines = table(runs);
    const sum = lines.reduce((total, { ms }) => total + ms, 0);
    console.log(`\n${basename(folder)}, ${rows} rows: whole ${median(whole).toFixed(2)} ms, ` +
      `kernels ${sum.toFixed(2)} ms, gaps ${(median(whole) - sum).toFixed(2)} ms`);
    console.log("| kernel | grid | times | us | ms | share |\n|---|---|---|---|---|---|");
    for (const { key, count, us, ms } of lines) {
      console.log(`| ${key} | ${count} | ${us.toFixed(1)} | ${ms.toFixed(2)} | ` +
        `${((100 * ms) / sum).toFixed(0)}% |`);
    }
  }
  model.engine.freeBuffers();
}
process.exit(0);
