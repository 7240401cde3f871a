// A real server and real native workers on loopback: what the orchestrator costs for a token, how
// many bytes a request moves, how fast 1, 3 and 10 workers answer, and how long a start takes.
//
//   ./dev bench swarm [--package packages/weft-tiny] [--workers 1,3,10] [--prompt-tokens 25]
//                     [--tokens 128] [--repeat 5] [--threads 1] [--pin] [--spares 0]
//                     [--plan layers]
//
// Prints one JSON line for each number of workers and a table at the end. Every worker's offer fits
// exactly the layers it is meant to hold, so that the plan needs all of them. With --spares so many
// more are connected, each with the offer of one that computes. With --plan tensor, for a package
// of `weft groups`, each has room for all, and they divide every layer. CPU time is the kernel's
// own count (schedstat, nanoseconds).
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    package: { type: "string", default: "packages/weft-tiny" },
    workers: { type: "string", default: "1,3,10" },
    "prompt-tokens": { type: "string", default: "25" },
    tokens: { type: "string", default: "128" },
    repeat: { type: "string", default: "5" },
    threads: { type: "string", default: "1" },
    pin: { type: "boolean", default: false },
    spares: { type: "string", default: "0" },
    plan: { type: "string", default: "layers" },
  },
});
const tokenCount = Number(options.tokens);
const spareCount = Number(options.spares);
const context = Math.max(256, Number(options["prompt-tokens"]) + tokenCount + 8);
const manifest = JSON.parse(readFileSync(join(options.package, "weft.json"), "utf8"));

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// CPU nanoseconds that all threads of a process have used.
function cpuNanoseconds(pid) {
  let total = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    total += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]);
  }
  return total;
}

const isDivided = options.plan === "tensor";

// Offers that force `count` stages: stage i fits its own layers and half a layer more.
function offers(count) {
  if (isDivided) return Array.from({ length: count }, () => "8GiB");
  const layers = manifest.layers.map(
    (layer) => layer.weight_bytes + layer.kv_bytes_per_position * context,
  );
  if (count === 1) return ["8GiB"];
  const transformer = layers.slice(1, -1);
  // With as many workers as layers, embedding and head stand alone.
  const alone = count > transformer.length ? 1 : 0;
  const share = transformer.length / (count - 2 * alone);
  // The core counts 128 rows of 32 buffers as scratch, and the logits on the last stage.
  const scratch = 128 * manifest.hidden_columns * 4 * 32 + manifest.vocabulary * 4;
  const slack = scratch + 0.4 * Math.min(...transformer);
  return Array.from({ length: count }, (_, i) => {
    const cut = (k) => Math.max(0, Math.round((k - alone) * share));
    const inner = transformer.slice(cut(i), cut(i + 1));
    const ends = (i === 0 ? layers[0] : 0) + (i === count - 1 ? layers.at(-1) : 0);
    const own = alone && (i === 0 || i === count - 1) ? [] : inner;
    return String(Math.round(own.reduce((a, b) => a + b, ends) + slack));
  });
}

function start(args, onLine) {
  const child = spawn(options.weft, args, { stdio: ["ignore", "pipe", "pipe"] });
  for (const stream of [child.stdout, child.stderr]) {
    let pending = "";
    stream.on("data", (data) => {
      pending += data;
      const lines = pending.split("\n");
      pending = lines.pop();
      lines.forEach(onLine);
    });
  }
  return child;
}

async function metrics(base) {
  const text = await (await fetch(`${base}/metrics`)).text();
  return Object.fromEntries(
    text.split("\n").filter((line) => line && !line.startsWith("#")).map((line) => line.split(" ")),
  );
}

// One greedy request, not streamed: the server reports tokens, the clock is the client's.
async function ask(base, content, maxTokens) {
  const begin = performance.now();
  const response = await fetch(`${base}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({
      model: manifest.name,
      prompt: content,
      max_tokens: maxTokens,
      temperature: 0,
      ignore_eos: true,
    }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { usage } = await response.json();
  return { ms: performance.now() - begin, usage };
}

// A prompt that has exactly the wanted number of tokens.
async function promptOf(base, wanted) {
  for (let words = 1; words < 4000; ++words) {
    const content = Array.from({ length: words }, (_, i) => ["a", "b", "c", "d"][i % 4]).join(" ");
    const { usage } = await ask(base, content, 1);
    if (usage.prompt_tokens >= wanted) return content;
  }
  throw new Error("no prompt of that length");
}

// The same length with other letters: nothing of it is cached.
const varied = (content, i) =>
  content.replace(/[abcd]/g, (c) => "abcdefghijklmnopqrstuvwxyz"["abcd".indexOf(c) + 3 * (i % 7)]);

// A worker in one of these states is not done with joining.
const kUnsettled = ["connecting", "measuring", "preparing"];

// Starts a server, `count` workers and the spares; resolves once all stages are up.
async function startSwarm(count, children, cache) {
  let base = null;
  const limits = ["--port", "0", "--context", String(context), "--sessions", "1",
    "--plan", options.plan];
  const server = start(["serve", options.package, "--no-worker", ...limits], (line) => {
    base ??= /chat:\s+(http:\S+?)\/$/.exec(line)?.[1] ?? null;
  });
  children.push(server);
  while (!base) await sleep(20);
  const joined = performance.now();
  const needed = offers(count);
  const spares = Array.from({ length: spareCount }, (_, i) => needed[i % count]);
  [...needed, ...spares].forEach((offer, i) => {
    const folder = join(cache, String(i));
    const args = ["--memory", offer, "--threads", options.threads, "--cache", folder];
    const worker = start(["worker", base.replace("http", "ws"), ...args], () => {});
    children.push(worker);
    if (options.pin) spawn("taskset", ["-apc", String(i % 2), String(worker.pid)]);
  });
  for (;;) {
    const swarm = await (await fetch(`${base}/api/swarm`)).json();
    const ready = swarm.workers.filter(({ state }) => !kUnsettled.includes(state)).length;
    const holds = swarm.workers.every((each) => each.experts_held === each.experts_told) &&
      swarm.workers.filter((each) => each.experts_held > 0).length >= count - 1;
    const up = swarm.state === "up" && (isDivided ? holds : swarm.stages.length === count);
    if (up && ready === count + spareCount) break;
    if (performance.now() - joined > 300e3) {
      throw new Error(`${swarm.stages.length} of ${count} stages, ${ready} of ` +
        `${count + spareCount} workers ready: ${swarm.message}`);
    }
    await sleep(50);
  }
  return { base, pid: server.pid, upSeconds: (performance.now() - joined) / 1000 };
}

// What the server's process takes while nobody asks: pings of all workers, mostly.
async function idleCpuUsPerSecond({ pid }) {
  const before = cpuNanoseconds(pid);
  await sleep(5000);
  return (cpuNanoseconds(pid) - before) / 5e3;
}

// A prefill alone for the time to the first token, then a whole request with what the server
// counted meanwhile.
async function measuredChat({ base, pid }, first, second) {
  const prefill = await ask(base, first, 1);
  const before = await metrics(base);
  const cpu = cpuNanoseconds(pid);
  const whole = await ask(base, second, tokenCount);
  const cpuUs = (cpuNanoseconds(pid) - cpu) / 1e3;
  const after = await metrics(base);
  const delta = (name) => Number(after[name]) - Number(before[name]);
  return {
    prompt: whole.usage.prompt_tokens,
    tokens: whole.usage.completion_tokens,
    firstMs: prefill.ms,
    perTokenMs: (whole.ms - prefill.ms) / (whole.usage.completion_tokens - 1),
    cpuUs,
    coreUs: delta("weft_core_seconds_total") * 1e6,
    frames: delta("weft_frames_sent_total"),
    bytes: delta("weft_frame_bytes_sent_total") + delta("weft_frame_bytes_received_total"),
  };
}

function summary(count, swarm, runs) {
  const of = (pick) => median(runs.map(pick));
  return {
    workers: count,
    spares: spareCount,
    prompt_tokens: runs[0].prompt,
    tokens: runs[0].tokens,
    up_s: +swarm.upSeconds.toFixed(2),
    ttft_ms: +of((r) => r.firstMs).toFixed(1),
    ms_per_token: +of((r) => r.perTokenMs).toFixed(2),
    core_us_per_hop: +of((r) => r.coreUs / r.frames).toFixed(1),
    cpu_us_per_hop: +of((r) => r.cpuUs / r.frames).toFixed(1),
    cpu_us_per_token: +of((r) => r.cpuUs / r.tokens).toFixed(1),
    idle_cpu_us_per_s: +swarm.idleCpuUs.toFixed(0),
    share_of_50ms_token_percent: +of((r) => (r.cpuUs / r.tokens / 50e3) * 100).toFixed(3),
    mb_per_request: +of((r) => r.bytes / 1e6).toFixed(3),
  };
}

async function measure(count) {
  const cache = mkdtempSync(join(tmpdir(), "weft-bench-"));
  const children = [];
  try {
    const swarm = await startSwarm(count, children, cache);
    const content = await promptOf(swarm.base, Number(options["prompt-tokens"]));
    await ask(swarm.base, content, tokenCount);
    const runs = [];
    for (let i = 0; i < Number(options.repeat); ++i) {
      const pair = [varied(content, 2 * i + 1), varied(content, 2 * i + 2)];
      runs.push(await measuredChat(swarm, ...pair));
    }
    swarm.idleCpuUs = await idleCpuUsPerSecond(swarm);
    return summary(count, swarm, runs);
  } finally {
    children.forEach((child) => child.kill());
    await sleep(300 + 20 * spareCount);
    rmSync(cache, { recursive: true, force: true });
  }
}

const rows = [];
for (const count of options.workers.split(",").map(Number)) {
  const row = await measure(count);
  console.log(JSON.stringify(row));
  rows.push(row);
}
console.table(rows);
