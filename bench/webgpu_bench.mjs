// Our WebGPU engine beside its peers, in Node and in Chromium: decode, prefill, WeInfer's ablation
// and interval study, a stage's fixed cost. Random 4-bit weights of Qwen3's exact shapes. Subjects
// take turns in every round; figures are medians. Prints a line of JSON a figure and one table
// last. docs/performance.md has results and how to read them. Without options it compares tabs
// with onnxruntime-web on weft-tiny's shape, on Chromium's software adapter: a guard against
// regressions.
//
//   ./dev bench webgpu [--parts node-ours,node-ort,chromium-ours,chromium-ort,wllama]
//     [--sizes tiny,0.6B,1.7B,4B,8B] [--contexts 128,4096] [--prefills 512,2048] [--tokens 64]
//     [--rounds 5] [--extras ablation,stage,profile] [--seconds 500] [--step-seconds 120]
//     [--models DIR] [--json FILE] [--tuning auto|off|JSON] [--form q4|q4s]
//
// On a machine without npm: --kit DIR has node_modules, dawn.node, chromium, playwright-core, xlibs
// and web/ (onnxruntime-web's and wllama's files), and --engine FILE what bundle.mjs made.
// --tuning: what our engine's kernels are (docs/webgpu.md); what was chosen is in the figures.
// --form: what our layers' weights are; tables and heads stay q4.
// --hardware runs Chromium on the GPU, and peers in f16; --stable without the experiments of
// WebGPU, as browsers come.
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Comparison } from "./webgpu/comparison.mjs";
import { Parts } from "./webgpu/parts.mjs";
import { printTables } from "./webgpu/tables.mjs";

const list = (text) => text.split(",").filter(Boolean);
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { values } = parseArgs({
  options: {
    parts: { type: "string", default: "node-ours,chromium-ours,chromium-ort" },
    sizes: { type: "string", default: "weft-tiny" },
    contexts: { type: "string", default: "32" },
    prefills: { type: "string", default: "32" },
    tokens: { type: "string", default: "8" },
    rounds: { type: "string", default: "5" },
    extras: { type: "string", default: "" },
    seconds: { type: "string", default: "500" },
    "step-seconds": { type: "string", default: "120" },
    models: { type: "string", default: join(root, "build/bench/models") },
    json: { type: "string" },
    tuning: { type: "string", default: "auto" },
    form: { type: "string", default: "q4" },
    kit: { type: "string" },
    engine: { type: "string" },
    hardware: { type: "boolean", default: false },
    stable: { type: "boolean", default: false },
    weft: { type: "string" }, // ./dev bench hands it to every benchmark
  },
});

async function engineFile() {
  if (values.engine) return values.engine;
  const { bundleEngine } = await import("./webgpu/bundle.mjs");
  return await bundleEngine();
}

if (values.kit && !existsSync(values.kit)) throw new Error(`There is no folder ${values.kit}.`);
if (!["q4", "q4s"].includes(values.form)) {
  throw new Error(`--form: there is no '${values.form}', only q4 and q4s`);
}
const parts = new Parts({
  root,
  kit: values.kit,
  engine: await engineFile(),
  models: values.models,
  hardware: values.hardware,
  experiments: !values.stable,
});
const comparison = new Comparison(parts, {
  parts: list(values.parts),
  sizes: list(values.sizes),
  contexts: list(values.contexts).map(Number),
  prefills: list(values.prefills).map(Number),
  extras: list(values.extras),
  tokens: Number(values.tokens),
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  stepSeconds: Number(values["step-seconds"]),
  tuning: values.tuning.startsWith("{") ? JSON.parse(values.tuning) : values.tuning,
  form: values.form,
});
const figures = await comparison.run();
if (values.json) writeFileSync(values.json, JSON.stringify(figures));
printTables(figures, list(values.parts));
await parts.close();
process.exit(0); // Dawn keeps threads
