// Time for a token of neuron groups over lines that lose packets, in the form of
// halo-lossy-networks' table I. The same engine runs over TCP (`tcp`, through lines that let no
// datagrams pass), over datagrams that are sent again (`udp`, as devices have it), and with
// `serve --lossy` (`lossy`), whose sums do without what is lost. Beside these, `layers` has the
// same devices with whole layers. `auto` lets the server choose, and its rows say what it took.
// `experts` and `experts-f16` are for a mixture's package: helpers hold its experts, with rows in
// f32 and in f16, and --copies says how many are asked for an expert at once. The helpers of
// `experts-gpu` are `weft worker --gpu`, all on one GPU. `--package 30b-a3b` is two layers of
// Qwen3-30B-A3B's shape, made on demand.
// `dllama` is distributed-llama, built elsewhere, with random weights of a shape (halo/dllama.mjs).
//
//   ./dev bench halo --package FOLDER [--hub 200MiB] [--helper 160MiB] [--helpers 1,3]
//                    [--loss 0,1,2,5] [--delay-ms 1,...] [--mbit 1000] [--tokens 24]
//                    [--repeat 3]
//                    [--threads 1] [--pin] [--kinds tcp,udp,lossy,layers,auto] [--kernels avx2]
//                    [--kinds experts --copies auto|N]
//                    [--kinds dllama --dllama PROGRAM --shape 0.6B [--layers N] [--vocabulary N]]
//                    [--json FILE [--label 8B]]
//   ./dev bench halo --plot FILE,... --out FOLDER
//
// FOLDER is a package of `weft groups`; the hub's and the helpers' memory decide who has how many
// groups. Server, hub and client are one machine, and each helper is another one, with a line that
// loses so many per cent of the packets both ways and delays each by --delay-ms both ways
// (lossy_network.cc, which wants root: `./dev build release lossy_network`). With 0 helpers the hub
// has the whole model. Devices of one machine share its memory's bandwidth, which devices of their
// own do not: --kernels has all of them compute with slower kernels, so that memory keeps up.
// With --pin each device has two of the machine's processors for itself, one after the other.
// Helpers begin with the package's weights in their caches, as links to its files. Where a line
// delays packets by 4 ms and more, answers have a quarter of --tokens.
//
// --json adds a line for each time to FILE, with the conditions and a label (the model's name if
// there is none). --plot draws such files, and what `./dev bench group-losses` printed
// (halo/figures.mjs).
//
// A token's time is that of an answer of --tokens less that of one of a single token, both with the
// prompt known; medians.
import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { measureDllama, writeRandomModel } from "./halo/dllama.mjs";
import { drawFigures } from "./halo/figures.mjs";
import { packageOf } from "./lib/packages.mjs";
import { median } from "./lib/statistics.mjs";
import { linkCache, sleep, until, WeftProcess } from "./lib/weft_processes.mjs";
import { shapeOf } from "./webgpu/shapes.mjs";

const { values: options } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    package: { type: "string", default: "packages/qwen3-0.6b-groups" },
    hub: { type: "string", default: "200MiB" },
    helper: { type: "string", default: "160MiB" },
    helpers: { type: "string", default: "1,3" },
    loss: { type: "string", default: "0,1,2,5" },
    "delay-ms": { type: "string", default: "1" },
    mbit: { type: "string", default: "1000" },
    tokens: { type: "string", default: "24" },
    repeat: { type: "string", default: "3" },
    threads: { type: "string", default: "1" },
    kinds: { type: "string", default: "tcp,udp,lossy" },
    copies: { type: "string", default: "auto" },
    kernels: { type: "string", default: "" },
    pin: { type: "boolean", default: false },
    dllama: { type: "string", default: "dllama" },
    shape: { type: "string", default: "0.6B" },
    layers: { type: "string" },
    vocabulary: { type: "string" },
    json: { type: "string" },
    label: { type: "string" },
    plot: { type: "string" },
    out: { type: "string", default: "." },
  },
});
const kPort = 9471;
const kHost = "10.77.0.1"; // member 0 of lossy_network.cc
const kOrigin = `http://${kHost}:${kPort}`;
const kControl = 3;
const kSlowLineMs = 4;
const kLoadMs = 300_000;
const numbers = (list) => list.split(",").map(Number);
const kinds = options.kinds.split(",");
const packageFolder = options.package === "30b-a3b" ?
  packageOf(options.weft, options.package).folder : options.package;
const mostHelpers = Math.max(...numbers(options.helpers));

// What everybody here knows of a server that others can reach.
process.env.WEFT_API_KEY = "0123456789abcdef0123456789abcdef";
process.env.WEFT_JOIN_TOKEN = "fedcba9876543210fedcba9876543210";
const kAllowed = { Authorization: `Bearer ${process.env.WEFT_API_KEY}` };

async function request(path, body) {
  const answer = await fetch(`${kOrigin}${path}`, {
    method: body ? "POST" : "GET",
    headers: { "Content-Type": "application/json", ...kAllowed },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return await answer.json();
}

const swarmOf = async () => await request("/api/swarm");

// From now on each helper's line is so. null: it does nothing to what comes.
function setLines(line, kind) {
  const { loss, delay } = line ?? { loss: 0, delay: 0 };
  const bits = line === null ? 0 : 1e6 * options.mbit;
  for (let i = 1; i <= mostHelpers; ++i) {
    writeSync(kControl, `line ${i} loss ${loss / 100} delay_us ${1e3 * delay} ` +
      `bits_per_s ${bits} udp ${kind === "tcp" ? 0 : 1}\n`);
  }
}

// Every line that is to be measured: the per cent of packets that it loses, its delay in ms.
function linesOf(helperCount) {
  if (helperCount === 0) return [{ loss: 0, delay: numbers(options["delay-ms"])[0] }];
  return numbers(options["delay-ms"]).flatMap((delay) =>
    numbers(options.loss).map((loss) => ({ loss, delay })));
}

function tokensOver({ delay }) {
  const tokens = Number(options.tokens);
  return delay < kSlowLineMs ? tokens : Math.max(3, Math.round(tokens / 4));
}

async function timed(model, number, tokens) {
  const begin = performance.now();
  const { usage } = await request("/v1/completions", {
    model, temperature: 0, ignore_eos: true, max_tokens: tokens,
    prompt: `This is story number ${number}.`,
  });
  return { ms: performance.now() - begin, tokens: usage.completion_tokens,
    lost: usage.lost_groups ?? 0 };
}

// Milliseconds for each token behind the first, and what the answer did without.
async function answer(model, number, tokens) {
  await timed(model, number, 1); // the prompt is read
  const first = await timed(model, number, 1);
  const whole = await timed(model, number, tokens);
  return { ...whole, ms: (whole.ms - first.ms) / (whole.tokens - first.tokens) };
}

// Some hundred tokens tell the server how wrong its predictions are, and plans are looked at again
// every 15 s.
async function settle(model) {
  for (let i = 0; i < 3; ++i) {
    await timed(model, 100 + i, 200);
    await sleep(16_000);
  }
}

const isExperts = (kind) => kind.startsWith("experts");
// What the server's plan has apart from whole layers.
function takenPlan(picture) {
  if (picture.experts_needed === 0) return "layers";
  return picture.in_neuron_groups ? "tensor" : "experts";
}

function isComplete(picture, helperCount, kind) {
  if (picture.state !== "up" || picture.workers.length !== helperCount + 1) return false;
  if (kind === "layers" || kind === "auto") return true;
  const holders = picture.workers.filter((each) => each.experts_held > 0);
  if (isExperts(kind)) {
    return holders.length >= helperCount &&
      picture.workers.every((each) => each.experts_held === each.experts_told);
  }
  return (helperCount === 0 || (holders.length === helperCount + 1 &&
      holders.every((each) => each.experts_held === each.experts_told) &&
      (options.kernels || picture.stages[0].worker === picture.workers[0].id))) &&
    (kind !== "lossy" || helperCount === 0 || picture.losses[0]?.lines.every((line) => line.ready));
}

function planOf(kind) {
  if (isExperts(kind)) return "experts";
  return kind === "layers" || kind === "auto" ? kind : "tensor";
}

// Tells a time, and keeps it with its conditions where a file is for that.
function note(row, label) {
  console.log(JSON.stringify(row));
  if (!options.json) return;
  const { mbit, threads, kernels } = options;
  const conditions = { label: options.label ?? label, mbit: Number(mbit),
    threads: Number(threads), ...(kernels ? { kernels } : {}), processor: cpus()[0].model };
  appendFileSync(options.json, `${JSON.stringify({ ...conditions, ...row })}\n`);
}

// The arguments of one helper, or of the hub where that is no worker of the server's.
function workerArguments(number, kind, cache, memory) {
  const own = kind === "experts-gpu" && number > 0 ? ["--gpu"] :
    ["--threads", options.threads, ...(options.kernels ? ["--kernels", options.kernels] : [])];
  return ["worker", `ws://${kHost}:${kPort}`, "--cache", cache, ...memory, ...own];
}

// The swarm with so many helpers, over one kind of line: a row for each of them.
async function measure(model, helperCount, kind) {
  setLines(null, kind);
  const caches = mkdtempSync(join(packageFolder, "..", "weft-halo-"));
  const own = { lossy: ["--lossy", "--loss-limit", "1"],
    "experts-f16": ["--expert-rows", "f16"] }[kind] ?? [];
  if (isExperts(kind) && helperCount > 0) own.push("--expert-copies", options.copies);
  const { threads } = options;
  const memory = helperCount === 0 ? [] : ["--worker-memory", options.hub];
  const pinned = (number) =>
    options.pin ? ["taskset", "-c", `${2 * number},${2 * number + 1}`] : [];
  const startWorker = (number, memoryOffered, prefix) => {
    const cache = join(caches, String(number));
    linkCache(join(packageFolder, "blobs"), join(cache, "blobs"));
    return new WeftProcess(options.weft, workerArguments(number, kind, cache, memoryOffered),
      { prefix: [...pinned(number), ...prefix] });
  };
  const server = new WeftProcess(options.weft, ["serve", packageFolder, "--address", kHost,
    "--port", String(kPort), "--plan", helperCount === 0 ? "layers" : planOf(kind), "--threads",
    threads, "--sessions", "1", "--context", "256", "--journal", "off", "--token-limit", "120",
    "--gpu", "off",
    ...(options.kernels ? ["--no-worker"] : memory), ...own], { prefix: pinned(0) });
  const members = process.env.WEFT_MEMBERS.split(":");
  const helpers = [];
  const rows = [];
  try {
    await until(() => server.lines.some((line) => line.includes("/v1")), () => server.lines.join());
    if (options.kernels) {
      helpers.push(startWorker(0, helperCount === 0 ? [] : ["--memory", options.hub], []));
      await until(async () => (await swarmOf()).workers.length === 1, () => "the hub is missing");
    }
    for (let i = 1; i <= helperCount; ++i) {
      const prefix = ["nsenter", `--net=${members[i]}`];
      helpers.push(startWorker(i, ["--memory", options.helper], prefix));
    }
    let last;
    await until(async () => {
      last = await swarmOf();
      return isComplete(last, helperCount, kind);
    }, () => `${JSON.stringify(last)} ${helpers.map(({ lines }) => lines.slice(-3)).join()}`,
    kLoadMs);
    await sleep(1500);
    for (const line of linesOf(helperCount)) {
      setLines(line, kind);
      await answer(model, 0, tokensOver(line));
      if (kind === "auto") await settle(model);
      const answers = [];
      for (let i = 1; i <= Number(options.repeat); ++i)
        answers.push(await answer(model, i, tokensOver(line)));
      const tokens = answers.reduce((sum, each) => sum + each.tokens, 0);
      const lost = answers.reduce((sum, each) => sum + each.lost, 0) / tokens;
      const ms = median(answers.map((each) => each.ms));
      last = await swarmOf();
      rows.push({ helpers: helperCount, kind, loss: line.loss, delay_ms: line.delay, ms, lost,
        groups: last.experts_needed, plan: takenPlan(last), stages: last.stages.length,
        predicted: last.predicted_us_per_token / 1e3 });
      note(rows.at(-1), model);
    }
  } finally {
    setLines(null, kind);
    for (const helper of helpers) await helper.end();
    await server.end();
    rmSync(caches, { recursive: true, force: true });
  }
  return rows;
}

// The same with distributed-llama.
async function measurePeer(files, helpers) {
  setLines(null, "dllama");
  const times = await measureDllama({ dllama: options.dllama, files,
    members: process.env.WEFT_MEMBERS.split(":"), helpers,
    lines: linesOf(helpers), setLines: (line) => setLines(line, "dllama"),
    tokens: Number(options.tokens), repeat: Number(options.repeat), threads: options.threads });
  const rows = times.map((each) => ({ helpers, kind: "dllama", ...each }));
  for (const row of rows) note(row, options.shape);
  return rows;
}

// Its random weights, in a folder that is removed at the end.
function peerModel(folder) {
  const shape = { ...shapeOf(options.shape) };
  if (options.layers) shape.layers = Number(options.layers);
  if (options.vocabulary) shape.vocabulary = Number(options.vocabulary);
  return writeRandomModel(folder, shape);
}

function printTable(rows) {
  console.log(`\n${options.mbit} Mbit/s each way, ${options.threads} threads a device, ` +
    "milliseconds a token\n");
  console.log(`| devices | delay | lost | ${kinds.join(" | ")} | groups lost a token |`);
  console.log(`|---:|---:|---:|${"---:|".repeat(kinds.length)}---:|`);
  for (const helpers of numbers(options.helpers)) {
    for (const { loss, delay } of linesOf(helpers)) {
      const of = (kind) => rows.find((row) => row.kind === kind && row.helpers === helpers &&
        row.loss === loss && row.delay_ms === delay);
      const times = kinds.map((kind) => of(kind)?.ms.toFixed(1) ?? "");
      const lossy = of("lossy");
      const lost = lossy ? `${lossy.lost.toFixed(1)} of ${lossy.groups}` : "";
      console.log(`| ${helpers + 1} | ${delay} ms | ${loss}% | ${times.join(" | ")} | ${lost} |`);
    }
  }
}

async function main() {
  const isPeerAlone = kinds.every((kind) => kind === "dllama");
  const model = isPeerAlone ? null :
    JSON.parse(readFileSync(join(packageFolder, "weft.json"), "utf8")).name;
  const folder = mkdtempSync(join(tmpdir(), "weft-halo-peer-"));
  const rows = [];
  try {
    const files = kinds.includes("dllama") ? peerModel(folder) : null;
    for (const helpers of numbers(options.helpers)) {
      // Alone a device of ours is the same with every kind.
      const ours = kinds.filter((kind) => kind !== "dllama");
      for (const kind of helpers === 0 ? ours.slice(0, 1) : ours)
        rows.push(...await measure(model, helpers, kind));
      if (files) rows.push(...await measurePeer(files, helpers));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  printTable(rows);
}

if (options.plot) {
  try {
    drawFigures(options.plot.split(","), options.out);
    process.exit(0);
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}
if (process.env.WEFT_MEMBERS) {
  await main();
} else {
  const network = join(dirname(options.weft), "lossy_network");
  if (!existsSync(network)) {
    console.error(`'${network}' is missing: ./dev build release lossy_network makes it.`);
    process.exit(1);
  }
  const own = [process.execPath, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  const inside = spawnSync(network, [String(mostHelpers + 1), ...own], { stdio: "inherit" });
  process.exit(inside.status ?? 1);
}
