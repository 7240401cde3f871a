// Time for a token of neuron groups over lines that lose packets: the same engine with its answers
// over TCP (WebSocket) and, with `serve --lossy`, over UDP, in the form of halo-lossy-networks'
// table I.
//
//   ./dev bench halo [--package FOLDER] [--hub 200MiB] [--helper 160MiB] [--helpers 1,2]
//                    [--loss 0,1,2,5] [--tokens 24] [--repeat 3] [--both]
//
// FOLDER is a package of `weft groups`; the hub's and the helpers' memory decide who has how many
// groups. Everything runs in a network namespace of its own, which wants root and nft, with one
// thread a device. Packets of 1,500 bytes are dropped at random where the server receives them from
// helpers and, with --both, where helpers receive them. Which of them are whose says the client's
// port. The line is loopback otherwise: no delay, no limit of rate. Medians of the answers' times
// for a token.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { sleep, until, WeftProcess } from "./lib/weft_processes.mjs";

const { values: options } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    package: { type: "string", default: "packages/qwen3-0.6b-groups" },
    hub: { type: "string", default: "200MiB" },
    helper: { type: "string", default: "160MiB" },
    helpers: { type: "string", default: "1,2" },
    loss: { type: "string", default: "0,1,2,5" },
    tokens: { type: "string", default: "24" },
    repeat: { type: "string", default: "3" },
    both: { type: "boolean", default: false },
  },
});
const kPort = 9471;
// Of this process's connections, whose packets are not dropped.
const kFirstClientPort = 52000, kLastClientPort = 53999;
const numbers = (list) => list.split(",").map(Number);
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

let clientPort = kFirstClientPort;

// One request of this process; `onData` is told of what comes.
function request(path, body, onData = () => {}) {
  return new Promise((resolve, reject) => {
    clientPort = clientPort === kLastClientPort ? kFirstClientPort : clientPort + 1;
    const sent = http.request({
      host: "127.0.0.1", port: kPort, path, localPort: clientPort, agent: false,
      method: body ? "POST" : "GET", headers: { "Content-Type": "application/json" },
    }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        text += piece;
        onData(piece);
      });
      response.on("end", () => resolve(text));
    });
    sent.on("error", reject);
    sent.end(body && JSON.stringify(body));
  });
}

const swarmOf = async () => JSON.parse(await request("/api/swarm"));

// Of a hundred packets to the server so many are dropped, and of those to helpers.
function drop(percent) {
  const rules = ["flush chain inet weft in"];
  const lost = `numgen random mod 1000 < ${Math.round(10 * percent)} drop`;
  const client = `${kFirstClientPort}-${kLastClientPort}`;
  if (percent > 0) {
    rules.push(`add rule inet weft in tcp dport ${kPort} tcp sport != ${client} ${lost}`);
    rules.push(`add rule inet weft in udp dport ${kPort} ${lost}`);
    if (options.both)
      rules.push(`add rule inet weft in tcp sport ${kPort} tcp dport != ${client} ${lost}`);
  }
  execFileSync("nft", ["-f", "-"], { input: rules.join("\n") });
}

// Milliseconds for each token behind the first, and what the answer did without.
async function answer(model, number) {
  const times = [];
  let usage = {};
  await request("/v1/chat/completions", {
    model, temperature: 0, ignore_eos: true, stream: true, stream_options: { include_usage: true },
    max_tokens: Number(options.tokens),
    messages: [{ role: "user", content: `Tell me story number ${number}.` }],
  }, (piece) => {
    for (const line of piece.split("\n")) {
      if (!line.startsWith("data: {")) continue;
      const event = JSON.parse(line.slice(6));
      if (event.choices?.[0]?.delta?.content) times.push(performance.now());
      usage = event.usage ?? usage;
    }
  });
  if (times.length < 3) throw new Error(`an answer of ${times.length} pieces`);
  return {
    ms: (times.at(-1) - times[0]) / (usage.completion_tokens - 1),
    lost: usage.lost_groups ?? 0,
    tokens: usage.completion_tokens,
  };
}

// The swarm with so many helpers, over one kind of line: a row for each loss.
async function measure(model, helperCount, lossy) {
  drop(0);
  const cache = mkdtempSync(join(tmpdir(), "weft-halo-"));
  const kind = lossy ? ["--lossy", "--loss-limit", "1"] : [];
  const server = new WeftProcess(options.weft, ["serve", options.package, "--port", String(kPort),
    "--plan", "tensor", "--threads", "1", "--sessions", "1", "--context", "256", "--journal", "off",
    "--token-limit", "120", "--worker-memory", options.hub, ...kind]);
  const helpers = [];
  const rows = [];
  try {
    await until(() => server.lines.some((line) => line.includes("/v1")), () => server.lines.join());
    for (let i = 0; i < helperCount; ++i)
      helpers.push(new WeftProcess(options.weft, ["worker", `ws://127.0.0.1:${kPort}`, "--threads",
        "1", "--memory", options.helper, "--cache", join(cache, String(i))]));
    let last;
    await until(async () => {
      last = await swarmOf();
      return last.state === "up" && last.workers.length === helperCount + 1 &&
        last.workers.every((each) => each.experts_held > 0 &&
          each.experts_held === each.experts_told) &&
        last.stages[0].worker === last.workers[0].id &&
        (!lossy || last.losses[0]?.lines.every((line) => line.ready));
    }, () => JSON.stringify(last));
    await sleep(1500);
    await answer(model, 0);
    for (const loss of numbers(options.loss)) {
      drop(loss);
      const answers = [];
      for (let i = 1; i <= Number(options.repeat); ++i) answers.push(await answer(model, i));
      const ms = median(answers.map((each) => each.ms));
      const tokens = answers.reduce((sum, each) => sum + each.tokens, 0);
      const lost = answers.reduce((sum, each) => sum + each.lost, 0) / tokens;
      rows.push({ helpers: helperCount, lossy, loss, ms, lost, groups: last.experts_needed });
      console.log(JSON.stringify(rows.at(-1)));
    }
  } finally {
    drop(0);
    for (const helper of helpers) await helper.end();
    await server.end();
    rmSync(cache, { recursive: true, force: true });
  }
  return rows;
}

async function main() {
  for (const args of [["lo", "up"], ["lo", "mtu", "1500"], ["lo", "gso_max_segs", "1"]])
    execFileSync("ip", ["link", "set", ...args]);
  execFileSync("nft", ["-f", "-"], {
    input: "add table inet weft\nadd chain inet weft in { type filter hook input priority 0; }",
  });
  const model = JSON.parse(readFileSync(join(options.package, "weft.json"), "utf8")).name;
  const rows = [];
  for (const helpers of numbers(options.helpers))
    for (const lossy of [false, true]) rows.push(...await measure(model, helpers, lossy));
  console.log("\n| devices | lost | TCP, ms a token | --lossy | faster | groups lost a token |");
  console.log("|---:|---:|---:|---:|---:|---:|");
  for (const tcp of rows.filter((row) => !row.lossy)) {
    const udp = rows.find((row) => row.lossy && row.helpers === tcp.helpers &&
      row.loss === tcp.loss);
    console.log(`| ${tcp.helpers + 1} | ${tcp.loss}% | ${tcp.ms.toFixed(0)} | ` +
      `${udp.ms.toFixed(0)} | ${(tcp.ms / udp.ms).toFixed(2)} | ` +
      `${udp.lost.toFixed(1)} of ${udp.groups} |`);
  }
}

if (process.env.WEFT_HALO_BENCH === "inside") {
  await main();
} else {
  const again = [fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  const inside = spawnSync("unshare", ["--net", process.execPath, ...again],
    { env: { ...process.env, WEFT_HALO_BENCH: "inside" }, stdio: "inherit" });
  process.exit(inside.status ?? 1);
}
