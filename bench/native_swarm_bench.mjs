// What further native workers give conversations: workers side by side, each with the whole model,
// and the layers of one model shared out among several, against one worker with all of it. Every
// worker has processors of its own.
//
//   ./dev bench native-swarm [--model 0.6b] [--layers N] [--threads 4] [--beside 1,2]
//                            [--stages 1,3] [--conversations 1,6,16] [--tokens 64] [--rounds 3]
//
// One line of JSON for each swarm: tokens/s of all conversations from the first request to the last
// token, by how many are answered at once; medians. `side_plans` are those that there were.
import { rmSync, mkdtempSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { askQuietly } from "./lib/chat_client.mjs";
import { offerFor } from "./lib/offers.mjs";
import { packageOf } from "./lib/packages.mjs";
import { median, rounded } from "./lib/statistics.mjs";
import { linkCache, settledSwarm, sleep, startServer, startWorker, swarmOf, until }
  from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    model: { type: "string", default: "0.6b" },
    layers: { type: "string" },
    threads: { type: "string", default: "4" },
    beside: { type: "string", default: "1,2" },
    stages: { type: "string", default: "1,3" },
    conversations: { type: "string", default: "1,6,16" },
    tokens: { type: "string", default: "64" },
    rounds: { type: "string", default: "3" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --model 0.6b --layers N --threads N --beside 1,2 --stages 1,3\n" +
    "  --conversations 1,6,16 --tokens N --rounds N --weft PROGRAM");
  process.exit(0);
}
const numbers = (list) => list.split(",").filter((text) => text !== "").map(Number);
const threads = Number(values.threads);
const conversations = numbers(values.conversations);
const { folder, manifest } = packageOf(values.weft, values.model, values.layers);
const scratch = mkdtempSync(join(tmpdir(), "weft-native-swarm-"));
const kContext = 512;
// The first two processors are the server's and the clients', where there are more.
const kFirst = availableParallelism() > 2 ? 2 : 0;
const sessions = Math.max(4, ...conversations);

// Tokens a second of so many conversations at once.
async function together(origin, count, name) {
  const begin = performance.now();
  const answers = await Promise.all(Array.from({ length: count }, (_, i) =>
    askQuietly(origin, { model: manifest.name, max_tokens: Number(values.tokens), ignore_eos: true,
      messages: [{ role: "user", content: `${name}: story ${i} of ${count}` }] })));
  const tokens = answers.reduce((sum, { usage }) => sum + usage.completion_tokens, 0);
  return (tokens * 1000) / (performance.now() - begin);
}

// `offers`: memory of each worker.
async function measure(figure, offers) {
  const server = await startServer(values.weft, folder,
    ["--context", String(kContext), "--sessions", String(sessions), "--journal", "off"]);
  const workers = [];
  try {
    for (const [i, memory] of offers.entries()) {
      const cache = join(scratch, `${figure}-${offers.length}-${i}`);
      if (i > 0 && figure === "beside")
        linkCache(join(scratch, `${figure}-${offers.length}-0`), cache);
      const cpus = `${kFirst + i * threads}-${kFirst + (i + 1) * threads - 1}`;
      workers.push(startWorker(values.weft, server.origin,
        ["--threads", String(threads), "--memory", String(memory), "--cache", cache],
        { prefix: ["taskset", "-c", cpus] }));
      if (i === 0 && figure === "beside") await settledSwarm(server.origin, 1);
    }
    await settledSwarm(server.origin, offers.length);
    const wanted = figure === "beside" ? offers.length - 1 : 0;
    await until(async () => (await swarmOf(server.origin)).side_plans.length >= wanted,
      () => `${wanted} side plans`);
    await sleep(2000); // what is measured of devices
    const cells = {};
    for (const count of conversations) {
      await together(server.origin, count, "warm up");
      const runs = [];
      for (let round = 0; round < Number(values.rounds); ++round)
        runs.push(await together(server.origin, count, `round ${round}`));
      cells[count] = rounded(median(runs), 1);
    }
    const { stages, side_plans: sidePlans } = await swarmOf(server.origin);
    console.log(JSON.stringify({ figure, workers: offers.length, threads, stages: stages.length,
      side_plans: sidePlans.length, tokens_per_s: cells }));
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
    await server.end();
  }
}

try {
  for (const count of numbers(values.beside)) await measure("beside", Array(count).fill("8GiB"));
  for (const count of numbers(values.stages)) {
    const offer = count === 1 ? "8GiB" : offerFor(manifest, kContext * sessions, count);
    await measure("stages", Array(count).fill(offer));
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(0);
