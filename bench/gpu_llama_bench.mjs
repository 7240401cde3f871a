// The WebGPU engine beside llama.cpp on one GPU: the same weights, of a GGUF with random Q4_0 (or
// q8_0, q4_k, q5_k, q6_k, with `keep-k` among the forms), in turns. Prompts, and one conversation
// that decodes.
//
//   ./dev bench gpu-llama [--size 8B] [--layers N] [--vocabulary N] [--weights q4_0]
//     [--forms q4s,q4]
//     [--gpus vulkan,cuda] [--prefills 512,2048] [--contexts 128,4096] [--tokens 32] [--rounds 5]
//     [--weft FILE] [--engine FILE] [--dawn FILE] [--llama DIR]
//
// llama.cpp is npm's node-llama-cpp with the prebuilt library of each of --gpus, under --llama
// (default: bench/engine, where it is installed). Its file is converted for ours, so that "q4" has
// the bytes of Q4_0; a line says how many each has. --engine is bundle.mjs's check_engine.mjs.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { median, rounded } from "./lib/statistics.mjs";
import { Subject } from "./lib/subject.mjs";
import { writeGguf } from "./webgpu/peers/random_gguf.mjs";
import { shapeOf } from "./webgpu/shapes.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..");
const { values } = parseArgs({
  options: {
    size: { type: "string", default: "8B" },
    layers: { type: "string" },
    vocabulary: { type: "string" },
    weights: { type: "string", default: "q4_0" },
    forms: { type: "string", default: "q4s,q4" },
    gpus: { type: "string", default: "vulkan,cuda" },
    prefills: { type: "string", default: "512,2048" },
    contexts: { type: "string", default: "128,4096" },
    tokens: { type: "string", default: "32" },
    rounds: { type: "string", default: "5" },
    weft: { type: "string", default: join(root, "build/release/weft") },
    engine: { type: "string" },
    dawn: { type: "string", default: join(root, "web/node_modules/webgpu/index.js") },
    llama: { type: "string", default: join(here, "engine") },
  },
});
const words = (text) => text.split(",").filter(Boolean);
const numbers = (text) => words(text).map(Number);
const [prefills, contexts] = [numbers(values.prefills), numbers(values.contexts)];
const tokens = Number(values.tokens);
const shape = { ...shapeOf(values.size), weights: values.weights };
if (values.layers) shape.layers = Number(values.layers);
if (values.vocabulary) shape.vocabulary = Number(values.vocabulary);

// Its optional packages are builds for every machine and card: only those asked for are installed.
function installLlama() {
  const wanted = words(values.gpus).map((gpu) => `@node-llama-cpp/linux-x64-${gpu}@3.22.1`);
  if (wanted.every((name) => existsSync(join(values.llama, "node_modules", name.slice(0, -7))))) {
    return;
  }
  execFileSync("npm", ["install", "--no-save", "--omit=optional", ...wanted],
    { cwd: values.llama, stdio: ["ignore", 2, 2] });
}

async function startAll(folder) {
  const target = join(folder, "gguf");
  const gguf = join(folder, "model.gguf"); // not one of several parts
  renameSync(join(target, writeGguf(target, shape, 1 << 20).files[0]), gguf);
  const subjects = [];
  for (const form of words(values.forms)) {
    const out = join(folder, form);
    execFileSync(values.weft, ["convert", gguf, out, "--quant", form],
      { stdio: ["ignore", 2, 2] });
    subjects.push(await Subject.start(`weft ${form}`, process.execPath, [
      join(here, "webgpu/subjects/package_subject.mjs"), values.engine, values.dawn, out,
    ]));
  }
  const script = join(values.llama, "llama_subject.mjs");
  if (!existsSync(script)) cpSync(join(here, "engine/llama_subject.mjs"), script);
  const context = `${Math.max(...contexts, ...prefills) + tokens + 64}`;
  for (const gpu of words(values.gpus)) {
    subjects.push(await Subject.start(`llama.cpp ${gpu}`, process.execPath,
      [script, gguf, "--gpu", gpu, "--context", context]));
  }
  return subjects;
}

// The median of all rounds, in which the subjects take turns. The first round warms up.
async function measure(subjects, line, count) {
  const rates = subjects.map(() => []);
  for (let round = -1; round < Number(values.rounds); ++round) {
    for (const [i, subject] of subjects.entries()) {
      const ms = await subject.ms(line);
      if (round >= 0) rates[i].push((1e3 * count) / ms);
    }
  }
  return rates.map(median);
}

if (!values.engine) {
  const { bundleCheckEngine } = await import("./webgpu/bundle.mjs");
  values.engine = await bundleCheckEngine();
}
installLlama();
const folder = mkdtempSync(join(tmpdir(), "weft-gpu-llama-"));
try {
  const subjects = await startAll(folder);
  for (const { name, about: { bytes, kernels } } of subjects) {
    console.log(`${name}: ${rounded(bytes / 1e6, 0)} MB, ${kernels}`);
  }
  console.log(`\n| ${values.size}, ${shape.layers} layers | ${
    subjects.map(({ name }) => name).join(" | ")} |\n|---|${"---|".repeat(subjects.length)}`);
  const cells = [
    ...prefills.map((count) => [`prompt of ${count}`, `prefill ${count}`, count]),
    ...contexts.map((at) => [`decode at ${at}`, `decode ${at} ${tokens}`, tokens]),
  ];
  for (const [what, line, count] of cells) {
    const rates = await measure(subjects, line, count);
    console.log(`| ${what} | ${rates.map((rate) => rounded(rate, 0)).join(" | ")} |`);
  }
  for (const subject of subjects) await subject.end();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
