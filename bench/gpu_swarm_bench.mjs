// Headless GPU workers of one machine: how fast a model reaches the GPU beside the bare line, and
// tokens/s of one device through the server, of one that runs the whole model, and of several
// processes, with one conversation and more at once, beside the engine alone. Prints a line of JSON
// a figure.
//
// docs/headless.md says how; --help what can be chosen.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { get } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const kUsage = `./dev bench gpu-swarm --package DIR [options]

  --package DIR        package to load and to ask (default: the embedded model)
  --workers 1,2        how many headless workers share it, one cell each
  --adapters 0,1       worker i takes adapter i of these, or the first again (default: 0)
  --parts LIST         of line, load, engine, swarm, beside, prompts, engine-prompts (default: all
                       these), tabs and newcomers; beside: every worker holds the whole model, and
                       answers conversations of its own; engine-prompts: what "prompts" could reach,
                       without a server; tabs: the workers are tabs of one Chromium ($CHROMIUM), on
                       one GPU; newcomers: the first token of a new conversation beside so many
                       others, on one worker
  --tokens 160         tokens of an answer
  --rounds 3           medians of so many
  --conversations 1,4,16,32   how many at once
  --prompts 128,4096   lengths of prompts, in tokens
  --trace              with each cell of the swarm where a round's time goes, by stage
                       (docs/time-of-a-token.md); with part "engine" also the steps of a stage alone
  --allow-software     also on a software adapter
  --timed              instead of GPUs something that takes as long as an H200 with 1.7B and
                       computes nothing (gpu_swarm/timed_engine.js): what the server and the line
                       add, and how conversations are placed; not with line, load or engine

On a machine without npm:
  --weft FILE          the program
  --worker FILE        web/dist/headless/worker.mjs; it looks for Dawn as docs/headless.md says
  --dawn FILE          webgpu's index.js or dawn.node, for the engine alone
  --engine FILE        check_engine.mjs, which bench/webgpu/bundle.mjs writes`;
const { values } = parseArgs({
  options: {
    weft: { type: "string", default: join(root, "build/release/weft") },
    package: { type: "string", default: join(root, "packages/weft-tiny") },
    worker: { type: "string", default: join(root, "web/dist/headless/worker.mjs") },
    dawn: { type: "string", default: join(root, "web/node_modules/webgpu/index.js") },
    engine: { type: "string" },
    workers: { type: "string", default: "1,2" },
    adapters: { type: "string", default: "0" },
    tokens: { type: "string", default: "160" },
    rounds: { type: "string", default: "3" },
    conversations: { type: "string", default: "1,4,16,32" },
    parts: { type: "string", default: "line,load,engine,swarm,beside,prompts,engine-prompts" },
    prompts: { type: "string", default: "128,4096" },
    "allow-software": { type: "boolean", default: false },
    timed: { type: "boolean", default: false },
    trace: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(kUsage);
  process.exit(0);
}
const parts = values.parts.split(",");
const tokens = Number(values.tokens);
const rounds = Number(values.rounds);
const prompts = values.prompts.split(",").map(Number);
// For the longest prompt, with what the chat template adds.
const kContext = parts.includes("prompts") ? Math.max(1024, ...prompts) + 256 : 1024;
const conversations = values.conversations.split(",").map(Number);
const kSessions = Math.max(8, ...conversations) + (parts.includes("newcomers") ? 1 : 0);
const kUpMs = 90_000;

const manifest = JSON.parse(readFileSync(join(values.package, "weft.json"), "utf8"));
const blobBytes = Object.values(manifest.blobs).reduce((sum, blob) => sum + blob.byte_count, 0);
const heldBytes = manifest.layers.reduce(
  (sum, it) => sum + it.weight_bytes + it.kv_bytes_per_position * kContext * kSessions, 0);
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const print = (figure) => console.log(JSON.stringify(figure));
const round = (value, digits = 2) => Number(value.toFixed(digits));

async function withServer(body, more = []) {
  const args = ["serve", values.package, "--no-worker", "--port", "0",
    "--context", String(kContext), "--sessions", String(kSessions), ...more];
  const server = spawn(values.weft, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [server.stdout, server.stderr]) stream.on("data", (text) => (said += text));
  try {
    let origin;
    for (let i = 0; i < 200 && !origin; ++i) {
      await sleep(50);
      origin = /chat:\s+(http:\S+?)\/\s/.exec(said)?.[1];
    }
    if (!origin) throw new Error(`weft serve says: ${said}`);
    return await body(origin);
  } finally {
    server.kill("SIGTERM");
    await new Promise((resolve) => server.on("exit", resolve));
  }
}

// What a worker lends: what its part of the model takes, with room for its scratch.
const memoryFor = (count, isWhole) => isWhole ? heldBytes * 2 + 3e9 : (heldBytes / count) * 2;

function startWorker(origin, index, count, cache, more = [], isWhole = count === 1) {
  const adapters = values.adapters.split(",");
  const memory = memoryFor(count, isWhole);
  const args = [values.worker, origin.replace("http", "ws"), "--name", `gpu ${index}`,
    "--memory", String(Math.round(memory)), "--cache", cache,
    "--adapter", adapters[index] ?? adapters[0], ...more];
  if (values["allow-software"]) args.push("--allow-software");
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const worker = { child, said: "" };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => (worker.said += text));
  }
  worker.hasEnded = false;
  worker.stopped = new Promise((resolve) => child.on("exit", resolve));
  worker.stopped.then(() => (worker.hasEnded = true));
  return worker;
}

async function stop(workers) {
  for (const { child } of workers) child.kill("SIGTERM");
  await Promise.all(workers.map(({ stopped }) => Promise.race([stopped, sleep(5000)])));
  for (const { child } of workers) child.kill("SIGKILL");
}

const swarmOf = async (origin) => await (await fetch(`${origin}/api/swarm`)).json();

async function waitFor(origin, workers, isThere) {
  const end = Date.now() + kUpMs;
  for (;;) {
    const swarm = await swarmOf(origin);
    if (isThere(swarm)) return swarm;
    const said = workers.map((worker) => worker.said.slice(-500)).join("\n");
    const ended = workers.find(({ hasEnded }) => hasEnded);
    if (ended) throw new Error(`a worker ended: ${ended.said.slice(-500)}`);
    if (Date.now() > end) throw new Error(`${swarm.state}: ${swarm.message}\n${said}`);
    await sleep(20);
  }
}

function fetchAndHash(url) {
  return new Promise((resolve, reject) => {
    get(url, (response) => {
      const hash = createHash("sha256");
      response.on("data", (piece) => hash.update(piece));
      response.on("end", () => resolve(hash.digest("hex")));
      response.on("error", reject);
    }).on("error", reject);
  });
}

// Every blob once, fetched and hashed and nothing else.
async function measureLine(origin) {
  const begin = performance.now();
  for (const digest of Object.keys(manifest.blobs)) {
    const actual = await fetchAndHash(`${origin}/package/blobs/${digest}`);
    if (actual !== digest) throw new Error(`blob ${digest} hashes to ${actual}`);
  }
  return blobBytes / ((performance.now() - begin) / 1000);
}

// From the first that is asked of a device until its layers compute.
async function measureLoad(origin, cache) {
  const worker = startWorker(origin, 0, 1, cache);
  try {
    await waitFor(origin, [worker], (swarm) => swarm.state === "preparing" || swarm.state === "up");
    const begin = performance.now();
    await waitFor(origin, [worker], (swarm) => swarm.state === "up");
    return blobBytes / ((performance.now() - begin) / 1000);
  } finally {
    await stop([worker]);
  }
}

// Without a chat template, which packages of random weights lack.
async function ask(origin, prompt, count) {
  const begin = performance.now();
  const response = await fetch(`${origin}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({
      model: manifest.name, stream: true, stream_options: { include_usage: true }, temperature: 0,
      max_tokens: count, ignore_eos: true, prompt,
    }),
  });
  if (!response.ok) throw new Error(await response.text());
  let first = 0;
  let usage = null;
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines.filter((it) => it.startsWith("data: {"))) {
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(JSON.stringify(event.error));
      usage = event.usage ?? usage;
      if (event.choices?.[0]?.text) first ||= performance.now();
    }
  }
  const end = performance.now();
  return {
    count: usage.completion_tokens, promptTokens: usage.prompt_tokens,
    firstMs: first - begin, decodeMs: end - first,
  };
}

// Of about so many tokens, none of which was asked before.
function promptOf(tokenCount, round, perWord) {
  const words = Math.floor(tokenCount / perWord);
  const wordOf = (_, i) => `w${(i * 7919 + round * 104729 + tokenCount) % 9973}`;
  return Array.from({ length: words }, wordOf).join(" ");
}

// Time to the first token, and tokens a second of the prompt until then. Medians.
async function measurePrompts(count, cache) {
  return await withServer(async (origin) => {
    const workers = [];
    try {
      for (let i = 0; i < count; ++i) workers.push(startWorker(origin, i, count, cache));
      await waitFor(origin, workers, (swarm) =>
        swarm.state === "up" && swarm.stages.length >= count);
      await planSettles(origin);
      const probe = await ask(origin, promptOf(100, 99, 1), 1);
      const cells = {};
      for (const length of prompts) {
        const runs = [];
        let [before, begin] = [null, 0];
        for (let round = -2; round < rounds; ++round) {
          if (round === 0) [before, begin] = [await swarmOf(origin), performance.now()];
          const prompt = promptOf(length, round + 3, probe.promptTokens / 100);
          const answer = await ask(origin, prompt, 8);
          if (round >= 0) runs.push(answer); // the first ones warm up
        }
        const ms = performance.now() - begin;
        const traced = values.trace && { stages: stepsBetween(before, await swarmOf(origin), ms) };
        cells[length] = {
          prompt_tokens: median(runs.map(({ promptTokens }) => promptTokens)),
          first_token_ms: round(median(runs.map(({ firstMs }) => firstMs)), 1),
          prompt_tokens_per_s: round(median(runs.map(
            ({ promptTokens, firstMs }) => (promptTokens * 1000) / firstMs))),
          ...traced,
        };
      }
      return cells;
    } finally {
      await stop(workers);
    }
  });
}

// Devices are measured once nobody has asked for two seconds, and plans follow what was measured:
// until the same layers have been in the same places for six seconds.
async function planSettles(origin) {
  const end = performance.now() + 60_000;
  let [places, since] = ["", performance.now()];
  while (performance.now() < end && performance.now() - since < 6000) {
    await sleep(250);
    const { stages } = await swarmOf(origin);
    const now = JSON.stringify(stages.map((stage) => [stage.worker, stage.end_layer]));
    if (now !== places) [places, since] = [now, performance.now()];
  }
}

// So many conversations at once: tokens/s of one of them while it decodes and of all from the first
// request to the last token, and the time to the first token. Medians.
async function measureTogether(origin, count, name) {
  const begin = performance.now();
  const answers = await Promise.all(Array.from({ length: count }, (_, i) =>
    ask(origin, `${name}: story ${i} of ${count}`, tokens)));
  const ms = performance.now() - begin;
  return {
    one: median(answers.map((it) => ((it.count - 1) * 1000) / it.decodeMs)),
    all: (answers.reduce((sum, it) => sum + it.count, 0) * 1000) / ms,
    firstMs: median(answers.map(({ firstMs }) => firstMs)),
  };
}

// Steps between two looks at the swarm, by the stage of their workers: means of a step, and how
// much of the time its device computed; and what the planner counts with, a step's fixed part and
// the bytes that a device reads.
function stepsBetween(before, after, ms) {
  return after.stages.map(({ worker: id, first_layer: first, end_layer: end }) => {
    const workerOf = ({ workers }) => workers.find((worker) => worker.id === id);
    const [old, now] = [before, after].map((swarm) => workerOf(swarm)?.steps);
    const { overhead_us: overheadUs, speed_bytes_per_us: bytesPerUs } = workerOf(after);
    const count = now.count - old.count;
    const meanMs = (name) => round((now[name] - old[name]) / 1000 / count);
    return {
      layers: `${first}-${end - 1}`,
      steps_per_s: round((count * 1000) / ms, 0),
      rows: round((now.rows - old.rows) / count, 1),
      passed_ms: meanMs("passed_us"),
      queue_ms: meanMs("queue_us"),
      compute_ms: meanMs("compute_us"),
      busy: round((now.compute_us - old.compute_us) / 1000 / ms),
      planned_overhead_ms: round(overheadUs / 1000),
      planned_gb_per_s: round(bytesPerUs / 1000, 0),
    };
  });
}

// A cell for each count of conversations; the first round warms up what so many need.
async function measureTokens(origin) {
  const cells = {};
  for (const count of conversations) {
    await measureTogether(origin, count, "warm up");
    const runs = [];
    const [begin, before] = [performance.now(), await swarmOf(origin)];
    for (let i = 0; i < rounds; ++i) runs.push(await measureTogether(origin, count, `round ${i}`));
    const ms = performance.now() - begin;
    cells[count] = {
      tokens_per_s_of_one: round(median(runs.map(({ one }) => one))),
      tokens_per_s_of_all: round(median(runs.map(({ all }) => all))),
      first_token_ms: round(median(runs.map(({ firstMs }) => firstMs)), 1),
    };
    if (values.trace) {
      const cell = cells[count];
      cell.round_ms = round(1000 / cell.tokens_per_s_of_one);
      cell.stages = stepsBetween(before, await swarmOf(origin), ms);
    }
  }
  return { conversations: cells };
}

async function measureSwarm(count, cache, more = []) {
  return await withServer(async (origin) => {
    const workers = [];
    try {
      for (let i = 0; i < count; ++i) workers.push(startWorker(origin, i, count, cache, more));
      const { stages } = await waitFor(origin, workers, (swarm) =>
        swarm.state === "up" && swarm.stages.length >= count);
      await planSettles(origin);
      return { stages: stages.length, ...(await measureTokens(origin)) };
    } finally {
      await stop(workers);
    }
  });
}

// Conversations that begin one after the other while `others` decode: medians.
async function measureNewcomer(origin, others) {
  let isOver = false;
  const long = Array.from({ length: others }, async (_, i) => {
    const answer = await ask(origin, `talk ${i} of ${others}`, 900);
    isOver = true;
    return answer;
  });
  await sleep(600); // until all of them decode
  const firsts = [];
  for (let i = 0; i < 12 && !isOver; ++i) {
    await sleep(100 + ((37 * i) % 90));
    firsts.push((await ask(origin, `newcomer ${i} beside ${others}`, 4)).firstMs);
  }
  const answers = await Promise.all(long);
  return {
    first_token_ms: round(median(firsts), 1),
    tokens_per_s_of_others: round(median(answers.map(
      ({ count, decodeMs }) => ((count - 1) * 1000) / decodeMs))),
  };
}

async function measureNewcomers(cache) {
  return await withServer(async (origin) => {
    const worker = startWorker(origin, 0, 1, cache);
    try {
      await waitFor(origin, [worker], (swarm) => swarm.state === "up");
      await planSettles(origin);
      const cells = {};
      for (const count of conversations) cells[count] = await measureNewcomer(origin, count);
      return cells;
    } finally {
      await stop([worker]);
    }
  });
}

// The workers are tabs of one browser.
async function measureTabs(count) {
  const { buildHarness, harness, launchWithFolder, Tab } =
    await import("../tests/e2e/lib/tabs.mjs");
  await buildHarness();
  const profile = mkdtempSync(join(folder, "profile-"));
  const browser = await launchWithFolder(profile, !values["allow-software"]);
  try {
    return await withServer(async (origin) => {
      for (let i = 0; i < count; ++i) {
        const tab = await Tab.open(browser, origin);
        const memoryBytes = Math.round(memoryFor(count, count === 1));
        await tab.start({ name: `tab ${i}`, memoryBytes, engine: "webgpu" });
      }
      const { stages } = await waitFor(origin, [], (swarm) =>
        swarm.state === "up" && swarm.stages.length >= count);
      await planSettles(origin);
      return { stages: stages.length, ...(await measureTokens(origin)) };
    }, ["--web-root", harness]);
  } finally {
    await browser.close();
  }
}

// Every worker has room for the whole model: each answers conversations of its own.
async function measureBeside(count, cache) {
  return await withServer(async (origin) => {
    const workers = [];
    try {
      for (let i = 0; i < count; ++i) workers.push(startWorker(origin, i, count, cache, [], true));
      await waitFor(origin, workers, (swarm) =>
        swarm.state === "up" && swarm.side_plans.length >= count - 1);
      await planSettles(origin);
      const before = await swarmOf(origin);
      const cells = await measureTokens(origin);
      const after = await swarmOf(origin);
      const made = after.generated_tokens - before.generated_tokens;
      const share = (after.side_tokens - before.side_tokens) / made;
      return { plans: 1 + after.side_plans.length, share_beside: round(share), ...cells };
    } finally {
      await stop(workers);
    }
  });
}

// The package's engine, without a server.
async function openEngine() {
  const { kDefaultOptions, openGpu, tuneFor, MemoryTuneStore, PackageFolder, WebGpuEngine } =
    await import(pathToFileURL(values.engine).href);
  const { create } = values.dawn.endsWith(".node") ? createRequire(import.meta.url)(values.dawn)
    : await import(pathToFileURL(values.dawn).href);
  // As headless workers do. Dawn's instance must not go while its devices are used.
  globalThis.gpu = create(["enable-dawn-features=disable_workgroup_init,allow_unsafe_apis"]);
  const opened = await openGpu(globalThis.gpu);
  const residualDtype = manifest.boundary_dtype;
  const options = { ...kDefaultOptions, residualDtype };
  const { arithmetic } = await tuneFor(opened, options, new MemoryTuneStore());
  const engine = new WebGpuEngine(opened, { ...options, tuning: arithmetic });
  const source = new PackageFolder(values.package);
  return { engine, opened, source };
}

// A prompt in frames of so many rows, one handed over while one is computed; ms until the argmax of
// the last row is there.
async function timeEnginePrompt(engine, { range }, length, rows, session) {
  const begin = performance.now();
  const steps = [];
  for (let at = 0; at < length; at += rows) {
    const count = Math.min(rows, length - at);
    const output = { kind: at + count < length ? "none" : "argmax" };
    if (steps.length > 1) await steps.at(-2);
    const tokenIds = Int32Array.from({ length: count }, (_, i) => (at * 7 + i * 31) % 1000);
    const runs = [{ session, generation: 0, firstPosition: at, count, output }];
    steps.push(engine.step({ layers: range, runs, tokenIds, hidden: new Float32Array(0) }));
  }
  await Promise.all(steps);
  const ms = performance.now() - begin;
  engine.release(session);
  return ms;
}

// What a server could reach: tokens/s of prompts of these lengths, medians.
async function measureEnginePrompts() {
  const { engine, source } = await openEngine();
  await engine.load(source.range, source);
  const cells = {};
  for (const length of prompts) {
    cells[length] = {};
    for (const rows of [256, 512, 1024]) {
      const runs = [];
      for (let i = -1; i < rounds; ++i) {
        const ms = await timeEnginePrompt(engine, source, length, rows, 2 + i);
        if (i >= 0) runs.push((length * 1000) / ms);
      }
      cells[length][`frames_of_${rows}`] = round(median(runs), 0);
    }
  }
  return cells;
}

// The same package in the engine: loading, and one conversation.
async function measureEngine() {
  const { engine, opened, source } = await openEngine();
  const begin = performance.now();
  await engine.load(source.range, source);
  const loadBytesPerS = blobBytes / ((performance.now() - begin) / 1000);
  const decode = async (session) => {
    let last = 1;
    const start = performance.now();
    for (let position = 0; position < tokens; ++position) {
      const run = { session, generation: 0, firstPosition: position, count: 1,
        output: { kind: "argmax" } };
      const { selections } = await engine.step({ layers: source.range, runs: [run],
        tokenIds: Int32Array.of(last), hidden: new Float32Array(0) });
      last = selections[0].candidates[0].tokenId;
    }
    return (tokens * 1000) / (performance.now() - start);
  };
  const generate = async (session) => {
    const start = performance.now();
    const made = await engine.generate(source.range, { session, generation: 0, firstPosition: 0,
      firstToken: 1, count: tokens, interval: 8, pipelined: true, onTokens: () => true });
    return (made * 1000) / (performance.now() - start);
  };
  await decode(1);
  await generate(2);
  const stages = values.trace ? await measureStages(engine, opened, source.range) : undefined;
  const steps = [];
  const batches = [];
  for (let i = 0; i < rounds; ++i) {
    steps.push(await decode(10 + i));
    batches.push(await generate(20 + i));
  }
  return { load_mb_per_s: round(loadBytesPerS / 1e6, 0), tokens_per_s: round(median(steps)),
    tokens_per_s_whole: round(median(batches)), stages };
}

// Steps of the first and of the last half of the layers, a row of each of so many sessions: what is
// encoded until the GPU has it all, and until its results are there. Medians, ms.
async function measureStages(engine, { device }, { first, end }) {
  const { queue } = device;
  let submittedAt = 0;
  const submit = queue.submit;
  Object.defineProperty(queue, "submit", { configurable: true, value: (...args) => {
    submit.apply(queue, args);
    submittedAt = performance.now();
  } });
  const middle = Math.ceil((first + end) / 2);
  const columns = manifest.hidden_columns;
  const halves = { front: { first, end: middle }, back: { first: middle, end } };
  const cells = {};
  for (const rows of [1, 2, 4, 8, 16, 32]) {
    cells[rows] = {};
    for (const [name, layers] of Object.entries(halves)) {
      const times = [];
      for (let position = 0; position < 24; ++position) {
        const kind = layers.end === end ? "argmax" : "hidden";
        const runs = Array.from({ length: rows }, (_, i) => ({ session: 1000 * rows + i,
          generation: 0, firstPosition: position, count: 1, output: { kind } }));
        const isFront = layers.first === first;
        const begin = performance.now();
        await engine.step({ layers, runs,
          tokenIds: new Int32Array(isFront ? rows : 0).fill(7),
          hidden: new Float32Array(isFront ? 0 : rows * columns).fill(0.01) });
        const endedAt = performance.now();
        if (position >= 8) times.push([submittedAt - begin, endedAt - submittedAt]);
      }
      cells[rows][name] = { encode_ms: round(median(times.map(([encode]) => encode))),
        gpu_ms: round(median(times.map(([, gpu]) => gpu))) };
    }
    for (let i = 0; i < rows; ++i) engine.release(1000 * rows + i);
  }
  delete queue.submit;
  return cells;
}

if (parts.some((part) => part.startsWith("engine")) && !values.engine) {
  const { bundleCheckEngine } = await import("./webgpu/bundle.mjs");
  values.engine = await bundleCheckEngine();
}
if (values.timed) {
  const { bundleTimedWorker } = await import("./gpu_swarm/bundle_timed.mjs");
  values.worker = await bundleTimedWorker(join(root, "build/bench/timed"));
  values["allow-software"] = true;
}
if (!existsSync(values.worker)) throw new Error(`There is no ${values.worker}: ./dev build`);
const folder = mkdtempSync(join(tmpdir(), "weft-gpu-swarm-"));
const cache = join(folder, "warm");
try {
  print({ figure: "package", name: manifest.name, mb: round(blobBytes / 1e6) });
  if (parts.includes("line") || parts.includes("load")) {
    await withServer(async (origin) => {
      const lines = [];
      const loads = [];
      for (let i = 0; i < rounds; ++i) {
        lines.push(await measureLine(origin));
        if (!parts.includes("load")) continue;
        loads.push(await measureLoad(origin, join(folder, `cold ${i}`)));
      }
      const line = median(lines);
      print({ figure: "line", mb_per_s: round(line / 1e6) });
      if (!parts.includes("load")) return;
      print({ figure: "load", mb_per_s: round(median(loads) / 1e6),
        share_of_line: round(median(loads.map((load, i) => load / lines[i]))) });
      print({ figure: "load again", mb_per_s:
        round((await measureLoad(origin, join(folder, "cold 0"))) / 1e6) });
    });
  }
  if (parts.includes("swarm")) {
    for (const count of values.workers.split(",").map(Number)) {
      print({ figure: "swarm", workers: count, ...(await measureSwarm(count, cache)) });
      if (count > 1) continue;
      const whole = await measureSwarm(1, cache, ["--run-here"]);
      print({ figure: "whole model", workers: 1, ...whole });
    }
  }
  if (parts.includes("beside")) {
    for (const count of values.workers.split(",").map(Number)) {
      print({ figure: "side by side", workers: count, ...(await measureBeside(count, cache)) });
    }
  }
  if (parts.includes("newcomers")) {
    print({ figure: "newcomers", beside: await measureNewcomers(cache) });
  }
  if (parts.includes("tabs")) {
    for (const count of values.workers.split(",").map(Number)) {
      print({ figure: "tabs", workers: count, ...(await measureTabs(count)) });
    }
  }
  if (parts.includes("prompts")) {
    for (const count of values.workers.split(",").map(Number)) {
      print({ figure: "prompts", workers: count, prompts: await measurePrompts(count, cache) });
    }
  }
  if (parts.includes("engine-prompts")) {
    print({ figure: "prompts in the engine alone", tokens_per_s: await measureEnginePrompts() });
  }
  if (parts.includes("engine")) print({ figure: "engine alone", ...(await measureEngine()) });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0); // Dawn would keep it
