// Experts on other machines, measured from the outside (table 3 of moex-expert-disaggregation): a
// server whose worker is the hub of two layers of Qwen3-30B-A3B's shape, and native workers that
// hold their experts behind links with a round trip; against the same server with everything.
//
//   ./dev bench experts [--round-trips 0,2,10,50|direct] [--copies auto,1,2,3] [--requests 1,4,16]
//     [--holders 3] [--tokens 24] [--rounds 3] [--threads 1] [--package FOLDER]
//
// --package measures another mixture, all of its layers, say (webgpu/peers/random_gguf.mjs makes
// one of any number of layers). Each holder has memory for all experts.
//
// Relays delay what passes the server. Rows between native devices go past them in datagrams, so
// that round trips of lines are those of halo_bench.mjs (`--kinds experts`), whose devices have
// networks of their own.
//
// One line of JSON a cell: ms for a token of one request (median), tokens/s of all, bytes on the
// holders' links and CPU time for a row. `per_layer_ms` is what a layer takes longer than on
// one machine: of two layers, times 48, plus that machine's time, is a token of the whole model.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { askQuietly, messagesOf, textOf } from "./lib/chat_client.mjs";
import { packageOf } from "./lib/packages.mjs";
import { Relays } from "./lib/relays.mjs";
import { cpuNanoseconds, settledSwarm, sleep, startWorker, swarmOf, until, WeftProcess }
  from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    "round-trips": { type: "string", default: "0,2,10,50" },
    copies: { type: "string", default: "auto,1,2,3" },
    requests: { type: "string", default: "1,4,16" },
    holders: { type: "string", default: "3" },
    tokens: { type: "string", default: "24" },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: "1" },
    package: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --round-trips MS,...|direct " +
    "--copies auto|N,... --requests N,... --holders N " +
    "--tokens N --rounds N --threads N --package FOLDER");
  process.exit(0);
}
// "direct": without relays, which compute, too.
const isDirect = values["round-trips"] === "direct";
const roundTrips = isDirect ? [0] : values["round-trips"].split(",").map(Number);
const requestCounts = values.requests.split(",").map(Number);
const holderCount = Number(values.holders);
const tokens = Number(values.tokens);
const rounds = Number(values.rounds);

const kContext = 256;
const kExperts = 128;
const kChosen = 8;
const { folder: modelFolder, manifest } = values.package
  ? { folder: values.package,
      manifest: JSON.parse(readFileSync(join(values.package, "weft.json"), "utf8")) }
  : packageOf(values.weft, "30b-a3b");
const layerCount = manifest.layers.length - 2;
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const round = (value, digits = 2) => Number(value.toFixed(digits));

// A token reads 8 of a layer's 128 experts, and everything else of it.
function expertBytes({ kind, weight_bytes: all, read_bytes_per_token: read }) {
  return kind === "transformer" ? ((all - read) * kExperts) / (kExperts - kChosen) : 0;
}
const allBytes = manifest.layers.reduce((sum, { weight_bytes: bytes }) => sum + bytes, 0);
const expertsBytes = manifest.layers.reduce((sum, layer) => sum + expertBytes(layer), 0);

async function serve(args) {
  const sessions = String(Math.max(2, ...requestCounts));
  const server = new WeftProcess(values.weft, ["serve", modelFolder, "--port", "0", "--journal",
    "off", "--context", String(kContext), "--sessions", sessions, "--threads", values.threads,
    "--gpu", "off", ...args]);
  server.origin = await until(() => {
    if (server.exited) throw new Error(`weft serve ended: ${server.lines.join("\n")}`);
    return server.lines.join("\n").match(/chat:\s+(http:\S+?)\/?\s*$/m)?.[1];
  }, () => server.lines.join("\n"), 60_000);
  return server;
}

// So many answers at once. Times of decoding alone: the prompt is the same work in one layer.
async function measureRound(origin, count, number) {
  const begin = performance.now();
  const answers = await Promise.all(Array.from({ length: count }, (_, i) =>
    askQuietly(origin, { model: manifest.name, max_tokens: tokens, ignore_eos: true,
      temperature: 0, messages: messagesOf(textOf(100 * number + i, 6)) })));
  const ms = performance.now() - begin;
  return {
    tokenMs: median(answers.map(({ times }) =>
      (times.at(-1) - times[0]) / Math.max(1, times.length - 1))),
    perS: (count * tokens * 1000) / ms,
    rows: answers.reduce((sum, { usage }) => sum + usage.prompt_tokens -
      (usage.prompt_tokens_details?.cached_tokens ?? 0) + usage.completion_tokens - 1, 0),
  };
}

// CPU and bytes are counts, which a busy machine changes less than times: of every row that was
// computed, of prompts, too.
let roundNumber = 0;
async function measure(server, count, workers = [], byteCount = () => 0) {
  const { origin } = server;
  const cpu = () => [server, ...workers].map(({ pid }) => cpuNanoseconds(pid));
  await measureRound(origin, count, ++roundNumber); // warms up
  const before = { bytes: await byteCount(), cpu: cpu() };
  const runs = [];
  for (let i = 0; i < rounds; ++i) runs.push(await measureRound(origin, count, ++roundNumber));
  const bytes = (await byteCount()) - before.bytes;
  const rows = runs.reduce((sum, run) => sum + run.rows, 0);
  const spent = cpu().map((after, i) => (after - before.cpu[i]) / 1e6 / rows);
  return {
    token_ms: round(median(runs.map(({ tokenMs }) => tokenMs))),
    tokens_per_s: round(median(runs.map(({ perS }) => perS))),
    row_bytes: Math.round(bytes / rows),
    row_cpu_ms: {
      server: round(spent[0]), holders: round(spent.slice(1).reduce((a, b) => a + b, 0)),
    },
  };
}

const alone = {};
async function measureAlone() {
  const server = await serve(["--worker-memory", String(Math.round(allBytes + 2e9)),
    "--plan", "layers"]);
  try {
    await settledSwarm(server.origin, 1);
    for (const count of requestCounts) {
      alone[count] = await measure(server, count);
      console.log(JSON.stringify({ plan: "one machine", requests: count, ...alone[count] }));
    }
  } finally {
    await server.end();
  }
}

async function measureCopies(copies, caches) {
  const room = 64e6; // keys and values, and what computes
  const server = await serve(["--plan", "experts", "--expert-copies", copies, "--worker-memory",
    String(Math.round(allBytes - expertsBytes + room))]);
  const relays = new Relays(server.origin);
  const workers = [];
  try {
    for (let i = 0; i < holderCount; ++i) {
      const origin = isDirect ? server.origin : await relays.add();
      workers.push(startWorker(values.weft, origin, ["--memory",
        String(Math.round(expertsBytes + 400e6)), "--threads", values.threads,
        "--cache", caches[i], "--name", `holder ${i}`]));
    }
    await settledSwarm(server.origin, holderCount + 1);
    await until(async () => {
      const { workers: all } = await swarmOf(server.origin);
      return all.every((each) => each.experts_held === each.experts_told);
    }, () => "experts held", 300_000);
    await sleep(2000);
    for (const ms of roundTrips) {
      for (let i = 0; i < holderCount && !isDirect; ++i) await relays.shape(i, { delayMs: ms / 2 });
      await until(async () => (await swarmOf(server.origin)).workers.every(
        ({ name, latency_ms: seen }) => name === "this server" ||
          (seen >= 0.8 * ms && seen <= 1.5 * ms + 3)), () => `a latency of ${ms} ms`);
      await sleep(1000);
      for (const count of requestCounts) {
        const cell = await measure(server, count, workers,
          async () => (isDirect ? 0 : (await relays.report()).byteCount));
        const longer = cell.token_ms - alone[count].token_ms;
        console.log(JSON.stringify({ plan: "experts", round_trip_ms: isDirect ? "direct" : ms,
          copies, requests: count, ...cell, per_layer_ms: round(longer / layerCount),
          of_one_machine: round(cell.token_ms / alone[count].token_ms) }));
      }
    }
  } finally {
    for (const worker of workers) await worker.end();
    await relays.close();
    await server.end();
  }
}

const scratch = mkdtempSync(join(tmpdir(), "weft-experts-"));
try {
  const caches = Array.from({ length: holderCount }, (_, i) => join(scratch, String(i)));
  await measureAlone();
  for (const copies of values.copies.split(",")) await measureCopies(copies, caches);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
