// Devices that are nobody's: real native workers that come as a stranger each time and are killed
// at their first step (or a later one), beside one that stays. How many requests still get an
// answer, and how long all of them take.
//
//   ./dev bench flapping PACKAGE [--flappers 3] [--requests 64] [--clients 4] [--tokens 16]
//                        [--steps 1] [--weft build/release/weft]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { streamChat, textOf } from "./lib/chat_client.mjs";
import { Link } from "./lib/link.mjs";
import { linkCache, sleep, startServer, startWorker, until } from "./lib/weft_processes.mjs";

const { values, positionals: [folder] } = parseArgs({
  allowPositionals: true,
  options: {
    flappers: { type: "string", default: "3" },
    requests: { type: "string", default: "64" },
    clients: { type: "string", default: "4" },
    tokens: { type: "string", default: "16" },
    steps: { type: "string", default: "1" },
    weft: { type: "string", default: "build/release/weft" },
  },
});
if (!folder) {
  console.error("usage: ./dev bench flapping PACKAGE [--flappers N] [--requests N] [--clients N] " +
    "[--tokens N] [--steps N]");
  process.exit(2);
}

const scratch = mkdtempSync(join(tmpdir(), "weft-flapping-"));
const worker = ["--memory", "256MiB", "--threads", "1"];
let deaths = 0;
let model = "";
let over = false;

// One that is killed as soon as its first (or so many more) step of any kind reaches it, and comes
// again as another device.
class Flapper {
  #worker = null;
  #count = 0;
  #steps = 0;

  constructor(server, name, seed) {
    const { hostname: host, port } = new URL(server.origin);
    this.name = name;
    this.seed = seed;
    this.link = new Link({ host, port: Number(port) }, () => this.#onStep());
  }

  #onStep() {
    if (!this.#worker || this.#worker.exited || ++this.#steps < Number(values.steps)) return;
    this.#worker.signal("SIGKILL");
    ++deaths;
  }

  async run() {
    const port = await this.link.listen();
    while (!over) {
      const cache = join(scratch, `${this.name}-${++this.#count}`);
      linkCache(this.seed, cache);
      this.#steps = 0;
      this.#worker = startWorker(values.weft, `http://127.0.0.1:${port}`,
        [...worker, "--cache", cache, "--name", `${this.name} ${this.#count}`]);
      await this.#worker.ended;
      rmSync(cache, { recursive: true, force: true });
    }
  }

  end() {
    this.#worker?.signal("SIGKILL");
    this.link.server.close();
  }
}

async function client(server, next, outcomes) {
  for (let number = next(); number !== null; number = next()) {
    const messages = [{ role: "user", content: textOf(number, 24) }];
    const result = await streamChat(server.origin,
      { model, messages, max_tokens: Number(values.tokens) }, () => {});
    const error = result.error ?? (result.finish === null ? "the stream broke off" : "");
    outcomes.push(error === "" ? "answered" : `${result.status} ${error}`);
  }
}

async function main() {
  const server = await startServer(values.weft, folder, ["--context", "256", "--sessions", "4"]);
  model = (await (await fetch(`${server.origin}/v1/models`)).json()).data[0].id;
  // The one that stays fills the cache for all.
  const seed = join(scratch, "stays");
  const start = () => startWorker(values.weft, server.origin,
    [...worker, "--cache", seed, "--name", "stays"]);
  let stays = start();
  const swarm = async () => await (await fetch(`${server.origin}/api/swarm`)).json();
  const isUp = async () => (await swarm()).state === "up";
  await until(isUp, () => "the swarm is not up");
  await stays.end();
  // Strangers are there first, and serve.
  const flappers = Array.from({ length: Number(values.flappers) },
    (_, i) => new Flapper(server, `flaps ${i + 1}`, seed));
  const runs = flappers.map((flapper) => flapper.run());
  await until(isUp, () => "the swarm of strangers is not up");
  stays = start();
  await sleep(1000);
  const outcomes = [];
  let number = 0;
  const next = () => (number < Number(values.requests) ? number++ : null);
  const begin = performance.now();
  await Promise.all(Array.from({ length: Number(values.clients) },
    () => client(server, next, outcomes)));
  const seconds = (performance.now() - begin) / 1000;
  over = true;
  flappers.forEach((flapper) => flapper.end());
  await Promise.all(runs);
  await stays.end();
  await server.end();
  const counts = new Map();
  for (const outcome of outcomes) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  console.log(`${values.flappers} devices flap (${deaths} have gone), ${outcomes.length} ` +
    `requests in ${seconds.toFixed(1)} s:`);
  for (const [outcome, count] of counts) console.log(`  ${count} ${outcome}`);
}

try {
  await main();
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
