// A server of a whole library under load: clients that ask its models in turn, and native workers
// that come and go. What is lost, what memory does, and how long the list of models takes.
//
//   ./dev bench soak [--minutes 10] [--clients 20] [--models 3] [--memory 160MiB]
//
// One line of JSON: answers, those that were told to come later (503), those that were lost (cut
// off, another status, or another text than the same question had before), unloads, the server's
// memory after a minute and at the end in MiB, and the median and the slowest GET /v1/models with
// 20 models in the library, in ms. The models are copies of weft-tiny. `--memory` of each worker
// holds one or two of them, so that they are loaded and unloaded all the time.
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { packageOf } from "./lib/packages.mjs";
import { median, rounded } from "./lib/statistics.mjs";
import { memoryMiB, sleep, until } from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    minutes: { type: "string", default: "10" },
    clients: { type: "string", default: "20" },
    models: { type: "string", default: "3" },
    memory: { type: "string", default: "160MiB" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --minutes N --clients N --models N --memory SIZE --weft PROGRAM");
  process.exit(0);
}
const kListed = 20; // models in the library
const kAway = 5_000, kThere = 20_000; // ms that a worker is away, and there
const minutes = Number(values.minutes);
const home = mkdtempSync(join(tmpdir(), "weft-soak-"));
mkdirSync(join(home, "packages"));
const { folder } = packageOf(values.weft, "tiny");
const names = Array.from({ length: kListed }, (_, i) => `model-${String(i).padStart(2, "0")}`);
for (const name of names)
  cpSync(folder, join(home, "packages", name), { recursive: true });

const server = spawn(values.weft,
  ["serve", "--port", "0", "--no-worker", "--sessions", "4", "--context", "512", "--wait", "60"],
  { env: { ...process.env, WEFT_HOME: home, WEFT_GPU: "off" }, stdio: ["ignore", "pipe", "pipe"] });
let output = ""; // until its address is known
let unloads = 0;
for (const stream of [server.stdout, server.stderr])
  stream.setEncoding("utf8").on("data", (text) => {
    if (!output.includes("API: ")) output += text;
    unloads += (text.match(/unloading '/g) ?? []).length;
  });
const counts = { answers: 0, later: 0, lost: 0 };
const texts = new Map(); // by question
let isOver = false; // for clients
let mayLeave = false; // for workers, when all clients have their answers

async function askOnce(origin, model, number) {
  const content = `Tell me story ${number}.`;
  const body = { model, temperature: 0, max_tokens: 24, messages: [{ role: "user", content }] };
  try {
    const response = await fetch(`${origin}/v1/chat/completions`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    const json = await response.json();
    if (response.status === 503) {
      counts.later += 1;
      return await sleep(500);
    }
    const text = json.choices?.[0]?.message.content;
    const before = texts.get(content) ?? text; // the models are the same
    texts.set(content, before);
    if (response.status === 200 && text === before) counts.answers += 1;
    else throw new Error(`${response.status} ${JSON.stringify(json).slice(0, 300)}`);
  } catch (error) {
    counts.lost += 1;
    console.error(`lost: ${error.message}`);
  }
}

async function client(origin, number) {
  for (let i = 0; !isOver; ++i)
    await askOnce(origin, names[(number + i) % Number(values.models)], i % 5);
}

// One that is killed again and again; the other one stays.
async function worker(origin, name, comesAndGoes) {
  while (!mayLeave) {
    const child = spawn(values.weft, ["worker", origin.replace("http", "ws"), "--memory",
      values.memory, "--threads", "1", "--name", name, "--cache", join(home, name)],
    { stdio: "ignore" });
    const end = Date.now() + (comesAndGoes ? kThere : Infinity);
    while (!mayLeave && Date.now() < end) await sleep(100);
    child.kill("SIGKILL");
    if (!mayLeave) await sleep(kAway);
  }
}

async function listTimes(origin) {
  const times = [];
  for (let i = 0; i < 100; ++i) {
    const begun = performance.now();
    const { data } = await (await fetch(`${origin}/v1/models`)).json();
    times.push(performance.now() - begun);
    if (data.length !== kListed) throw new Error(`${data.length} models are listed`);
  }
  return times;
}

try {
  const [, origin] = await until(() => output.match(/chat:\s+(http:\/\/[^/\s]+)\//), () => output);
  const list = await listTimes(origin);
  const workers = [worker(origin, "stays", false), worker(origin, "comes-and-goes", true)];
  const clients = Array.from({ length: Number(values.clients) }, (_, i) => client(origin, i));
  await sleep(Math.min(1, minutes / 2) * 60_000);
  const early = memoryMiB(server.pid);
  await sleep(Math.max(minutes - 1, minutes / 2) * 60_000);
  const late = memoryMiB(server.pid);
  isOver = true;
  await Promise.all(clients);
  mayLeave = true;
  await Promise.all(workers);
  console.log(JSON.stringify({
    minutes, ...counts,
    unloads,
    memory_mib: [rounded(early), rounded(late)],
    list_ms: [rounded(median(list)), rounded(Math.max(...list))],
  }));
} finally {
  isOver = mayLeave = true;
  server.kill("SIGKILL");
  rmSync(home, { recursive: true, force: true });
}
