// The native engine beside llama.cpp, on the same shapes with random weights, in turns.
//
//   ./dev bench engine [--against llama.cpp] [--size 0.6B] [--layers N] [--threads 1,2]
//     [--forms q4s,q4] [--table q8] [--their-table q6_k] [--prefills 512] [--contexts 128,2048]
//     [--tokens 32] [--batches 8] [--rounds 5] [--clock wall|processor] [--json FILE]
//     [--program FILE] [--llama DIR]
//
// llama.cpp is npm's node-llama-cpp, which picks the processor's kernels and repacks Q4_0: what a
// user gets. It is installed under bench/engine when it is asked for. Its file is Q4_0, and Q6_K
// for the embeddings, which are the head: llama-quantize makes such files. Ours have them in
// --table. A row says the bytes of each. A machine without a compiler gets --program, our
// native_engine_bench, and --llama, a folder with llama_subject.mjs and its node_modules. Where
// others use the machine, --clock processor counts a single thread's processor time alone.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { median, rounded } from "./lib/statistics.mjs";
import { Subject } from "./lib/subject.mjs";
import { writeGguf } from "./webgpu/peers/random_gguf.mjs";
import { kExpertShapes, shapeOf } from "./webgpu/shapes.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const numbers = (text) => text.split(",").filter(Boolean).map(Number);
const { values } = parseArgs({
  options: {
    program: { type: "string" },
    weft: { type: "string" }, // that `./dev bench` names; not needed here
    llama: { type: "string", default: join(dirname(fileURLToPath(import.meta.url)), "engine") },
    against: { type: "string" },
    size: { type: "string", default: "0.6B" },
    layers: { type: "string" },
    threads: { type: "string", default: "1,2" },
    forms: { type: "string", default: "q4s,q4" },
    table: { type: "string", default: "q8" },
    "their-table": { type: "string", default: "q6_k" },
    prefills: { type: "string", default: "512" },
    contexts: { type: "string", default: "128,2048" },
    tokens: { type: "string", default: "32" },
    batches: { type: "string", default: "" }, // rows of one step, each of a session: ours alone
    rounds: { type: "string", default: "5" },
    clock: { type: "string", default: "wall" },
    json: { type: "string" },
  },
});
if (values.against !== undefined && values.against !== "llama.cpp") {
  console.error(`--against: there is no '${values.against}', only llama.cpp`);
  process.exit(2);
}
const known = kExpertShapes[values.size] ?? shapeOf(values.size);
if (!["wall", "processor"].includes(values.clock)) {
  console.error(`--clock: there is no '${values.clock}', only wall and processor`);
  process.exit(2);
}
const shape = { ...known, ...(values.layers && { layers: Number(values.layers) }) };
const theirShape = { ...shape, table: values["their-table"] };
const prefills = numbers(values.prefills);
const contexts = numbers(values.contexts);
const tokens = Number(values.tokens);
const batches = numbers(values.batches);
const kReadBytes = 256 * 2 ** 20; // that native_engine_bench reads

function installLlama() {
  if (existsSync(join(values.llama, "node_modules/node-llama-cpp"))) return;
  // Its optional packages are builds for other machines and cards: half a gigabyte.
  // `npm ci` would want every one of them in the lock file.
  execFileSync("npm", ["install", "--no-save", "--omit=optional"],
    { cwd: values.llama, stdio: ["ignore", 2, 2] });
}

const ours = (form, threads) =>
  Subject.start(`weft ${form}`, program, [
    ...["--follow", "yes", "--dtype", form, "--table", values.table, "--threads", `${threads}`],
    ...["--layers", `${shape.layers}`, "--hidden", `${shape.hidden}`],
    ...["--width", `${shape.width}`, "--heads", `${shape.heads}`],
    ...["--kv-heads", `${shape.kvHeads}`],
    ...["--experts", `${shape.experts ?? 0}`, "--used", `${shape.used ?? 0}`],
  ]);

const theirs = (gguf, threads) =>
  Subject.start("llama.cpp Q4_0", process.execPath, [
    join(values.llama, "llama_subject.mjs"), gguf, "--threads", `${threads}`,
    "--context", `${Math.max(...contexts, ...prefills) + tokens + 64}`,
  ]);

async function msOf(subject, line) {
  const { ms, cpu_ms: processorMs } = await subject.ask(line);
  return values.clock === "wall" ? ms : processorMs;
}

// Of every cell the median of all rounds, in which the subjects take turns. `shares` are those of
// what the machine reads in the same turn; llama.cpp's is of our reading.
async function measure(subjects, gguf) {
  const cells = [
    ...prefills.map((count) => ({
      what: `prefill ${count}`, line: `prefill ${count}`, rows: count,
    })),
    ...contexts.map((at) => ({
      what: `decode at ${at}`, line: `decode ${at} ${tokens}`, rows: tokens, reads: true,
    })),
    ...batches.map((count) => ({
      ...{ what: `${count} rows a step`, line: `decode 128 ${tokens} ${count}` },
      ...{ rows: tokens * count, only: gguf ? subjects.length - 1 : subjects.length },
    })),
  ];
  for (const subject of subjects) await subject.ms(cells[0].line); // pages and threads warm up
  const rows = [];
  for (const { what, line, rows: count, reads, only } of cells) {
    const those = subjects.slice(0, only);
    const rates = those.map(() => []);
    const shares = those.map(() => []);
    for (let round = 0; round < Number(values.rounds); ++round) {
      for (const [i, subject] of those.entries()) {
        const bandwidth = reads ? kReadBytes / (await msOf(subjects[0], "read")) : null;
        const ms = await msOf(subject, line);
        rates[i].push((1e3 * count) / ms);
        if (reads) shares[i].push((subject.about.bytes * count) / ms / bandwidth);
      }
    }
    rows.push({ what, rates: rates.map(median), shares: reads && shares.map(median), all: rates });
  }
  return rows;
}

const program = values.program ?? join(root, "build/release/native_engine_bench");
if (!values.program) {
  execFileSync(join(root, "dev"), ["build", "release", "native_engine_bench"],
    { stdio: ["ignore", 2, 2] });
}
const folder = mkdtempSync(join(tmpdir(), "weft-engine-bench-"));
const results = [];
try {
  let gguf = null;
  if (values.against) {
    installLlama();
    const target = join(folder, "gguf");
    gguf = join(target, writeGguf(target, theirShape, 1 << 20).files[0]);
  }
  for (const threads of numbers(values.threads)) {
    const subjects = [];
    for (const form of values.forms.split(",")) subjects.push(await ours(form, threads));
    if (gguf) subjects.push(await theirs(gguf, threads));
    const about = subjects.map(({ name, about: { bytes, kernels } }) =>
      `${name}: ${rounded(bytes / 1e6, 0)} MB, ${kernels}`);
    console.log(`${values.size}, ${shape.layers} layers, threads: ${threads}`);
    console.log(`  ${about.join("\n  ")}`);
    for (const { what, rates, shares, all } of await measure(subjects, gguf)) {
      const theirRate = gguf && rates.length === subjects.length ? rates.at(-1) : null;
      const text = rates.map((rate, i) => {
        const ratio = theirRate && i + 1 < rates.length ? ` (${rounded(rate / theirRate, 2)})` : "";
        const share = shares && !shape.experts ? ` ${rounded(100 * shares[i], 0)}%` : "";
        return `${subjects[i].name} ${rounded(rate, 1)}${ratio}${share}`;
      });
      console.log(`  ${what.padEnd(16)} tokens/s: ${text.join(", ")}`);
      results.push({ threads, what, names: subjects.map(({ name }) => name), rates, shares, all });
    }
    for (const subject of subjects) await subject.end();
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (values.json) writeFileSync(values.json, JSON.stringify({ size: values.size, shape, results }));
