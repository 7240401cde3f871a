// Decoding and prompts of packages on the GPU at hand, whatever family they are of, in turn:
//
//   node bench/webgpu/packages_bench.mjs ENGINE DAWN [--tokens N] [--rounds N]
//     [--contexts 128,4096] [--rows 512] [--conversations 1,16,32] PACKAGE...
//
// ENGINE is bundle.mjs's check_engine.mjs. Every package is loaded alone. A token is one step with
// its argmax fetched (`step`), as a plan of several stages computes it, or one of 16 that the
// engine makes ahead on the GPU (`ahead`), as where a device holds the whole model. Both at a
// context of 128 and 4,096, medians of the rounds. An answer's first batches are short, so that a
// reader sees something soon (1, 1, 2, 4, 8): `full batches` is the time between the first and the
// last batch of 16, where there are two (--tokens 48). --conversations tells the tokens/s of so
// many at once, behind 128 positions each, and the milliseconds of a step of theirs. "Share": the
// bytes that a token reads (weights, keys and values of the whole context, recurrent state twice)
// over what a plain kernel reads in the same time.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { readBandwidth, wake } from "./bandwidth.mjs";
import { median, timed } from "./times.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tokens: { type: "string", default: "80" },
    rounds: { type: "string", default: "3" },
    contexts: { type: "string", default: "128,4096" },
    rows: { type: "string", default: "512" },
    conversations: { type: "string", default: "" },
  },
});
const [enginePath, dawnPath, ...folders] = positionals;
if (folders.length === 0) {
  console.error("usage: node packages_bench.mjs ENGINE DAWN [OPTIONS] PACKAGE...");
  process.exit(2);
}
const tokens = Number(options.tokens);
const rounds = Number(options.rounds);
const contexts = options.contexts.split(",").filter(Boolean).map(Number);
const promptRows = Number(options.rows);
const conversations = options.conversations.split(",").filter(Boolean).map(Number);
const kTalkContext = 128;
const kInterval = 16; // tokens of a full batch

const engine = await import(pathToFileURL(enginePath).href);
const { create } = createRequire(import.meta.url)(dawnPath);
// Dawn's instance must not go while its devices are used.
const kToggles = "enable-dawn-features=allow_unsafe_apis"; // matrix units are an experiment
globalThis.instance = create(["backend=vulkan", kToggles]);
const gpu = await engine.openGpu(globalThis.instance);
const readGBps = await readBandwidth(gpu.device);
console.log(`${gpu.description}: a plain kernel reads ${readGBps} GB/s`);
const tuned = await engine.tuneFor(gpu, engine.kDefaultOptions, new engine.MemoryTuneStore());
console.log(engine.tunedText(tuned));

function sum(layers, key) {
  return layers.reduce((total, layer) => total + (layer[key] ?? 0), 0);
}

class Measured {
  #session = 0;

  constructor(folder) {
    this.source = new engine.PackageFolder(folder);
    this.layers = JSON.parse(readFileSync(join(folder, "weft.json"), "utf8")).layers;
  }

  async load() {
    const { kDefaultOptions, WebGpuEngine } = engine;
    this.engine = new WebGpuEngine(gpu, { ...kDefaultOptions, tuning: tuned.arithmetic });
    await this.engine.load(this.source.range, this.source);
  }

  async #step(session, firstPosition, count, kind) {
    await this.engine.step({
      layers: this.source.range,
      runs: [{ session, generation: 0, firstPosition, count, output: { kind } }],
      tokenIds: Int32Array.from({ length: count }, (_, i) => (firstPosition + i) % 1000),
      hidden: new Float32Array(0),
    });
  }

  // A new session with so many positions.
  async #begin(positions) {
    const session = ++this.#session;
    for (let at = 0; at < positions; at += promptRows) {
      await this.#step(session, at, Math.min(promptRows, positions - at), "argmax");
    }
    return session;
  }

  async prompt() {
    await wake(gpu.device, 300);
    const ms = await timed(async () => this.engine.release(await this.#begin(promptRows)));
    return (1000 * promptRows) / ms;
  }

  async stepMs(context) {
    const session = await this.#begin(context);
    await wake(gpu.device, 300);
    const times = [];
    for (let i = 0; i < tokens; ++i) {
      times.push(await timed(() => this.#step(session, context + i, 1, "argmax")));
    }
    this.engine.release(session);
    return median(times);
  }

  // Milliseconds a token of an answer, and of those in its full batches behind the first such.
  async aheadMs(context) {
    const session = await this.#begin(context);
    await wake(gpu.device, 300);
    const request = { session, generation: 0, firstPosition: context, firstToken: 1 };
    const full = []; // when each full batch came
    const onTokens = (made) => {
      if (made.length === kInterval) full.push(performance.now());
      return true;
    };
    const how = { count: tokens, interval: kInterval, pipelined: true, onTokens };
    const ms = await timed(() => this.engine.generate(this.source.range, { ...request, ...how }));
    this.engine.release(session);
    return { all: ms / tokens,
      full: (full.at(-1) - full[0]) / (kInterval * (full.length - 1)) };
  }

  // A step in which each of so many conversations gets a token.
  async talksMs(count) {
    const requests = [];
    for (let i = 0; i < count; ++i) {
      const session = await this.#begin(kTalkContext);
      requests.push({ session, generation: 0, firstPosition: kTalkContext, firstToken: 1,
        count: tokens, interval: kInterval, pipelined: true, onTokens: () => true,
        onFailed: () => {} });
    }
    await wake(gpu.device, 300);
    const source = { take: () => requests.splice(0), pauses: () => false };
    const sessions = requests.map(({ session }) => session);
    const ms = await timed(() => this.engine.generateAll(this.source.range, source));
    for (const session of sessions) this.engine.release(session);
    return ms / tokens;
  }

  dispatches() {
    return this.engine.machine.encoder.dispatchCount;
  }

  bytesAt(context) {
    const kv = sum(this.layers, "kv_bytes_per_position") * context;
    return sum(this.layers, "read_bytes_per_token") + kv + 2 * sum(this.layers, "state_bytes");
  }
}

async function roundsOf(work) {
  await work();
  const runs = [];
  for (let i = 0; i < rounds; ++i) runs.push(await work());
  return runs;
}

const medianOf = async (work) => median(await roundsOf(work));

console.log("| package | MB a token | what | tokens/s | share | dispatches a token |");
console.log("|---|---|---|---|---|---|");
for (const folder of folders) {
  const model = new Measured(folder);
  const name = basename(folder);
  try {
    await model.load();
    const row = (what, rate, context, dispatches) => {
      const bytes = context === null ? null : model.bytesAt(context);
      const share = bytes === null ? "" : `${((rate * bytes) / (readGBps * 1e7)).toFixed(0)}%`;
      const megabytes = bytes === null ? "" : (bytes / 1e6).toFixed(0);
      console.log(
        `| ${name} | ${megabytes} | ${what} | ${rate.toPrecision(4)} | ${share} | ${dispatches} |`,
      );
    };
    for (const context of contexts) {
      const before = model.dispatches();
      await model.stepMs(0);
      const dispatches = Math.round((model.dispatches() - before) / tokens);
      row(`step at ${context}`, 1000 / (await medianOf(() => model.stepMs(context))), context,
        dispatches);
      const ahead = await roundsOf(() => model.aheadMs(context));
      const rate = (kind) => 1000 / median(ahead.map((run) => run[kind]));
      row(`ahead at ${context}`, rate("all"), context, "");
      if (tokens >= 3 * kInterval) {
        row(`ahead at ${context}, full batches`, rate("full"), context, "");
      }
    }
    for (const count of conversations) {
      const ms = await medianOf(() => model.talksMs(count));
      row(`${count} conversations, ${ms.toFixed(3)} ms a step`, (1000 * count) / ms, null, "");
    }
    row(`prompt of ${promptRows}`, await medianOf(() => model.prompt()), null, "");
  } catch (error) {
    console.log(`| ${name} | | failed: ${String(error).slice(0, 200)} | | | |`);
  }
  model.engine?.freeBuffers();
}
process.exit(0);
