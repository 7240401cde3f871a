// How long holders of experts load, and what memory they take, while a swarm starts and while one
// more device joins it.
//
//   ./dev bench expert-loading --package FOLDER [--holders 2] [--memory 1500MiB] [--hub 200MiB]
//
// FOLDER is a mixture of experts. The hub is a native worker, and so are the holders, with a thread
// each. One line is printed for the start and one for the join, with:
//   up_s       until the swarm could answer
//   loaded_s   until every device held all that it was told to
//   held       experts of each device
//   most_mib   the most memory of its own that a holder took, files that are mapped not counted
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { memoryMiB, startServer, startWorker, swarmOf, until } from "./lib/weft_processes.mjs";

const { values: options } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    package: { type: "string" },
    holders: { type: "string", default: "2" },
    memory: { type: "string", default: "1500MiB" },
    hub: { type: "string", default: "200MiB" },
  },
});
if (!options.package) {
  console.error("--package is missing: the folder of a mixture of experts");
  process.exit(2);
}
const kQuietMs = 3000; // without anything to load: the next statement would have come

// Until so many devices are there and all hold what they were told.
async function loaded(server, holders, count) {
  const begin = performance.now();
  let up = null, last = null, since = begin, most = 0;
  await until(async () => {
    last = await swarmOf(server.origin);
    most = Math.max(most, ...holders.map(({ pid }) => memoryMiB(pid, "RssAnon")));
    const now = performance.now();
    if (last.state === "up") up ??= now;
    const holding = last.workers.filter((each) => each.experts_held > 0);
    const isDone = last.state === "up" && last.workers.length === count &&
      holding.length >= holders.length &&
      last.workers.every((each) => each.experts_held === each.experts_told);
    if (!isDone) since = now;
    return now - since > kQuietMs;
  }, () => JSON.stringify(last), 600_000);
  const seconds = (at) => Number(((at - begin) / 1e3).toFixed(1));
  const held = Object.fromEntries(last.workers.map((each) => [each.name, each.experts_held]));
  return { up_s: seconds(up), loaded_s: seconds(since), held, most_mib: Math.round(most) };
}

const cache = mkdtempSync(join(tmpdir(), "weft-expert-loading-"));
const server = await startServer(options.weft, options.package,
  ["--plan", "experts", "--context", "512", "--sessions", "1", "--journal", "off"]);
const workers = [];
const joins = (name, memory) => {
  workers.push(startWorker(options.weft, server.origin, ["--threads", "1", "--memory", memory,
    "--cache", join(cache, name), "--name", name]));
  return workers.at(-1);
};
try {
  joins("hub", options.hub);
  const holders = [];
  for (let i = 1; i <= Number(options.holders); ++i) {
    holders.push(joins(`holder ${i}`, options.memory));
  }
  console.log(JSON.stringify({ start: await loaded(server, holders, workers.length) }));
  holders.push(joins("newcomer", options.memory));
  console.log(JSON.stringify({ join: await loaded(server, holders, workers.length) }));
} finally {
  await Promise.all(workers.map((worker) => worker.end()));
  await server.end();
  rmSync(cache, { recursive: true, force: true });
}
