// The WebGPU engine with a package, as a subject of `./dev bench gpu-llama`: the commands of
// bench/engine/llama_subject.mjs.
//
//   node bench/webgpu/subjects/package_subject.mjs ENGINE DAWN PACKAGE
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [enginePath, dawnPath, folder] = process.argv.slice(2);
const {
  kDefaultOptions, MemoryTuneStore, openGpu, PackageFolder, tuneFor, tunedText, WebGpuEngine,
} = await import(pathToFileURL(enginePath).href);
const { create } = createRequire(import.meta.url)(dawnPath);
// As headless workers do. Dawn's instance must not go while its devices are used.
globalThis.instance = create(["enable-dawn-features=disable_workgroup_init,allow_unsafe_apis"]);
const gpu = await openGpu(globalThis.instance);
const tuned = await tuneFor(gpu, kDefaultOptions, new MemoryTuneStore());
const engine = new WebGpuEngine(gpu, { ...kDefaultOptions, tuning: tuned.arithmetic });
const source = new PackageFolder(folder);
const layers = source.range;
await engine.load(layers, source);

const kFrameRows = 1024; // two are under way at a time, as a worker has them
let session = 0;
let round = 0;

async function readPrompt(count) {
  ++session;
  const shift = ++round;
  const steps = [];
  for (let at = 0; at < count; at += kFrameRows) {
    const rows = Math.min(kFrameRows, count - at);
    const output = { kind: at + rows < count ? "none" : "argmax" };
    if (steps.length > 1) await steps.at(-2);
    const tokenIds = Int32Array.from({ length: rows }, (_, i) => 100 + ((shift + 7 * i) % 150));
    const runs = [{ session, generation: 0, firstPosition: at, count: rows, output }];
    steps.push(engine.step({ layers, runs, tokenIds, hidden: new Float32Array(0) }));
  }
  await Promise.all(steps);
}

async function prefill(count) {
  const begin = performance.now();
  await readPrompt(count);
  const ms = performance.now() - begin;
  engine.release(session);
  return ms;
}

async function decode(position, count) {
  await readPrompt(position);
  const begin = performance.now();
  await engine.generate(layers, { session, generation: 0, firstPosition: position, firstToken: 1,
    count, interval: 16, pipelined: true, onTokens: () => true });
  const ms = performance.now() - begin;
  engine.release(session);
  return ms;
}

const manifest = JSON.parse(readFileSync(join(folder, "weft.json"), "utf8"));
const bytes = manifest.layers.reduce((sum, layer) => sum + layer.weight_bytes, 0);
const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
say({ bytes, kernels: `${gpu.description}, ${tunedText(tuned)}` });
for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...numbers] = line.split(" ");
  const [first, second] = numbers.map(Number);
  say({ ms: what === "prefill" ? await prefill(first) : await decode(first, second) });
}
process.exit(0); // Dawn would keep it
