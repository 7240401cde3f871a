// How long an answer pauses when the server that leads its model is killed. Three servers of a
// cluster, PostgreSQL, and native workers are on this machine; the client asks a server that lives.
//
//   ./dev bench failover [--kills 100] [--workers 3] [--memory 20MiB] [--context 512]
//                        [--prompt-sentences 1] [--tokens 120]
//
// Each time the leader is killed (SIGKILL) in the middle of an answer whose tokens are drawn, and
// is started again afterwards. Prints a line for each kill, and a table at the end: the longest
// pause between two pieces of the text, whether the text is that of an answer without a kill, how
// many positions the next leader computed, and when all workers were there.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { freePort, postgres } from "../tests/e2e/lib/postgres.mjs";
import {
  eventually, nativeWorker, packageOf, serve, stream, swarmOf,
} from "../tests/e2e/lib/weft.mjs";

const { values: options } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    kills: { type: "string", default: "100" },
    workers: { type: "string", default: "3" },
    memory: { type: "string", default: "20MiB" },
    context: { type: "string", default: "512" },
    "prompt-sentences": { type: "string", default: "1" },
    tokens: { type: "string", default: "120" },
  },
});
const workerCount = Number(options.workers);
const folder = mkdtempSync(join(tmpdir(), "weft-failover-bench-"));
const key = join(folder, "cluster.key");
const kStory = "A fox found a lantern in the snow and carried it home over the hill. ";
const kRequest = {
  model: "weft-tiny", ignore_eos: true, max_tokens: Number(options.tokens), temperature: 1, seed: 7,
  messages: [{ role: "user", content: kStory.repeat(Number(options["prompt-sentences"])) }],
};
const kPatienceMs = 60_000;

const clusterOf = async ({ origin }) => await (await fetch(`${origin}/api/cluster`)).json();

async function startServer(database, name, port) {
  const url = `http://127.0.0.1:${port}`;
  return Object.assign(await serve(packageOf("weft-tiny"),
    ["--port", String(port), "--url", url, "--cluster", database.url, "--cluster-key", key,
      "--context", options.context, "--sessions", "2", "--no-worker"],
    { XDG_STATE_HOME: join(folder, name) }), { name, port });
}

// The leader, once it has all workers, and all servers have links to each other.
async function settled(servers) {
  return await eventually(async () => {
    for (const server of servers) {
      const { servers: known } = await clusterOf(server);
      if (known.length !== servers.length || !known.every((each) => each.is_linked))
        throw new Error("the servers are not linked yet");
    }
    return await leaderOf(servers);
  }, kPatienceMs);
}

async function leaderOf(servers) {
  for (const server of servers) {
    if (!(await clusterOf(server)).leads) continue;
    const swarm = await swarmOf(server.origin);
    if (swarm.state === "up" && swarm.workers.length === workerCount) return { server, swarm };
  }
  throw new Error("no leader is up with all workers");
}

// One kill in the middle of an answer that another server streams.
async function killOnce(database, servers, expected) {
  const { server: leader } = await settled(servers);
  const others = servers.filter((each) => each !== leader);
  let [killedAt, last, pause, next] = [0, 0, 0, null];
  let answer = { text: "", finishReason: "none" };
  const failure = await stream(others[0].origin, kRequest, async (text) => {
    const now = performance.now();
    if (killedAt > 0) pause = Math.max(pause, now - last);
    last = now;
    if (killedAt > 0 || text.length < 40) return;
    killedAt = performance.now();
    leader.child.kill("SIGKILL");
    next = eventually(async () => {
      const { server } = await leaderOf(others);
      return { server, ms: performance.now() - killedAt };
    }, kPatienceMs);
  }).then((whole) => {
    answer = whole;
    return "";
  }, (error) => String(error));
  const { server, ms: upMs } = await next;
  const { computed_positions: computed } = await swarmOf(server.origin);
  await leader.exited;
  servers[servers.indexOf(leader)] = await startServer(database, leader.name, leader.port);
  return {
    pause_ms: Math.round(pause), up_ms: Math.round(upMs),
    is_same: failure === "" && answer.text === expected, failure, computed,
  };
}

function percentile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

const database = await postgres();
const servers = [];
const workers = [];
try {
  spawnSync(options.weft, ["cluster", "init", database.url, "--cluster-key", key]);
  for (const name of ["a", "b", "c"])
    servers.push(await startServer(database, name, await freePort()));
  const others = servers.slice(1).map(({ origin }) => origin.replace(/^http/, "ws"));
  for (let i = 0; i < workerCount; ++i)
    workers.push(nativeWorker(servers[0].origin, [...others, "--name", `device ${i}`,
      "--memory", options.memory, "--threads", "1", "--cache", join(folder, `cache ${i}`)]));
  const { server } = await settled(servers);
  const { text: expected } = await stream(server.origin, kRequest);
  const runs = [];
  for (let i = 0; i < Number(options.kills); ++i) {
    runs.push(await killOnce(database, servers, expected));
    console.log(JSON.stringify({ kill: i + 1, ...runs.at(-1) }));
  }
  const sorted = (pick) => runs.map(pick).sort((a, b) => a - b);
  const [pauses, ups] = [sorted((run) => run.pause_ms), sorted((run) => run.up_ms)];
  const computed = sorted((run) => run.computed);
  console.table([{
    kills: runs.length, wrong_texts: runs.filter((run) => !run.is_same).length,
    pause_p50: percentile(pauses, 0.5), pause_p99: percentile(pauses, 0.99),
    pause_most: pauses.at(-1), up_p50: percentile(ups, 0.5), up_most: ups.at(-1),
    computed_p50: percentile(computed, 0.5), computed_most: computed.at(-1),
  }]);
} finally {
  for (const { child } of [...workers, ...servers]) child.kill("SIGKILL");
  await database.stop();
  rmSync(folder, { recursive: true, force: true });
}
