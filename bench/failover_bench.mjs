// How long an answer pauses when the server that leads its model is lost, and what else clients see
// of a cluster's faults. Servers, PostgreSQL and native workers are on this machine; who asks asks
// a server that lives.
//
//   ./dev bench failover [--fault kill] [--times 100] [--workers 3] [--memory 20MiB]
//                        [--context 512] [--sessions 2] [--prompt-sentences 1] [--tokens 120]
//                        [--clients 50] [--seconds 60] [--every 10] [--serve="--queue 4000"]
//                        [--hash-worker build/release/hash_worker]
//
// --fault:
//   kill      the leader is killed (SIGKILL) in the middle of an answer, and started again
//   reading   the same while the prompt is being read
//   stop      the leader stops (SIGSTOP), with all connections open
//   power     the leader's machine loses its network; needs the rights to make network namespaces
//   database  the database stops for --seconds; --clients stream before, meanwhile and afterwards
//   none      --clients stream from the leader and from another server by turns: what that one adds
//   crowd     --clients stream for --seconds, while a server is killed every --every seconds
//
// A context of 4,096 with two conversations takes 64 MiB of a worker that holds all of weft-tiny:
// with 165 sentences, which are 2,650 tokens, give it --context 4096 --memory 100MiB.
//
// With --hash-worker (`./dev build release hash_worker`) devices compute the simulator's hash model
// in place of weft-tiny, for more clients than this machine can compute answers for.
//
// Prints a line for each loss and a table at the end: the longest pause between two pieces of the
// text, whether the text is that of an answer without a fault, how many positions the next leader
// computed, and when all workers were there.
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

import { TestCluster } from "../tests/e2e/lib/cluster.mjs";
import { packageOf } from "../tests/e2e/lib/weft.mjs";
import { stopDatabase } from "./failover/database.mjs";
import { compareGateway } from "./failover/gateway.mjs";
import { expectedOf, kKill, kStop, loseLeader, loseReader, requestOf } from
  "./failover/kills.mjs";
import { killUnderClients } from "./failover/many_clients.mjs";
import { machines } from "./failover/machines.mjs";
import { percentile } from "./lib/statistics.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string" },
    fault: { type: "string", default: "kill" },
    times: { type: "string", default: "100" },
    workers: { type: "string", default: "3" },
    memory: { type: "string", default: "20MiB" },
    context: { type: "string", default: "512" },
    sessions: { type: "string", default: "2" },
    "prompt-sentences": { type: "string", default: "1" },
    tokens: { type: "string", default: "120" },
    clients: { type: "string", default: "50" },
    seconds: { type: "string", default: "60" },
    every: { type: "string", default: "10" },
    serve: { type: "string", default: "" },
    "hash-worker": { type: "string" },
    verbose: { type: "boolean", default: false },
  },
});
const [sentences, tokens] = [Number(values["prompt-sentences"]), Number(values.tokens)];
const request = requestOf(sentences, tokens);

async function loseLeaders(cluster, fault, isReading) {
  const { server } = await cluster.settled();
  const expected = await expectedOf(server, request);
  console.log(JSON.stringify({ prompt_tokens: expected.promptTokens, first_ms: expected.firstMs }));
  const loseOnce = async (number) => {
    if (isReading)
      return await loseReader(cluster,
        requestOf(sentences, tokens, `This is story number ${number}. `), fault,
        expected.firstMs * (0.2 + 0.6 * Math.random()));
    const run = await loseLeader(cluster, request, { fault });
    return { ...run, is_same: run.error === null && run.text === expected.text };
  };
  const runs = [];
  for (let tries = 0; runs.length < Number(values.times); ++tries) {
    const { text, ...run } = await loseOnce(tries);
    if (run.was_missed) {
      expected.firstMs /= 2; // a machine that was busy then is quick now
      continue;
    }
    runs.push(run);
    console.log(JSON.stringify({ loss: runs.length, ...run, ...(run.is_same ? {} : { text }) }));
  }
  const of = (pick, percent) => percentile(runs.map(pick), percent);
  console.table([{
    losses: runs.length, wrong_texts: runs.filter((run) => !run.is_same).length,
    pause_p50: of((run) => run.pause_ms, 50), pause_p99: of((run) => run.pause_ms, 99),
    pause_most: of((run) => run.pause_ms, 100), up_p50: of((run) => run.up_ms, 50),
    up_most: of((run) => run.up_ms, 100), computed_p50: of((run) => run.computed, 50),
    computed_most: of((run) => run.computed, 100),
    differences: await cluster.differences(),
  }]);
}

const [clients, seconds] = [Number(values.clients), Number(values.seconds)];
const kFaults = {
  kill: (cluster) => loseLeaders(cluster, kKill),
  reading: (cluster) => loseLeaders(cluster, kKill, true),
  stop: (cluster) => loseLeaders(cluster, kStop),
  power: (cluster) => loseLeaders(cluster, cluster.options.machines.kPower),
  database: async (cluster) => {
    const { server } = await cluster.settled();
    const expected = await expectedOf(server, request);
    console.log(await stopDatabase(cluster, request, expected, { clients, seconds }));
  },
  none: async (cluster) =>
    console.log(await compareGateway(cluster, request, { clients, rounds: 4, turns: 5 })),
  crowd: async (cluster) => console.log(await killUnderClients(cluster,
    { clients, seconds, everyS: Number(values.every), tokens })),
};
const run = kFaults[values.fault];
if (!run) throw new Error(`--fault ${values.fault}: expected ${Object.keys(kFaults).join(", ")}`);

// Like the processes of tests/e2e/lib/weft.mjs.
function hashWorker(name, origins) {
  const child = spawn(values["hash-worker"], [packageOf("weft-tiny"), name, ...origins]);
  const worker = { child, output: "" };
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => (worker.output += text));
  return worker;
}

// Servers of other machines have a certificate of their own, and want a key (cluster.mjs).
function trustMachines({ tls }) {
  process.env.SSL_CERT_FILE = tls.certificate;
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  const plain = globalThis.fetch;
  globalThis.fetch = (url, options = {}) => plain(url, { ...options,
    headers: { ...options.headers, Authorization: `Bearer ${process.env.WEFT_API_KEY ?? ""}` } });
}

const places = values.fault === "power" ? machines("abc") : undefined;
if (places) trustMachines(places);
let cluster;
try {
  cluster = await TestCluster.start({
    workers: Number(values.workers), memory: values.memory, context: Number(values.context),
    sessions: Number(values.sessions), serve: values.serve.split(" ").filter(Boolean),
    machines: places, startWorker: values["hash-worker"] ? hashWorker : undefined,
  });
  await run(cluster);
} finally {
  if (values.verbose)
    for (const { output } of [...cluster?.servers ?? [], ...cluster?.workers ?? []])
      console.log(output);
  await cluster?.stop();
  places?.remove();
}
