// Servers and native workers in processes of their own, and the server's pictures of its swarm.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Polls until `check` gives something true; throws with `what` after `timeoutMs`.
export async function until(check, what, timeoutMs = 120_000) {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (performance.now() > endMs) throw new Error(`not within ${timeoutMs / 1000} s: ${what()}`);
    await sleep(20);
  }
}

// However a bench ends, nothing that it started goes on.
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => process.exit(1));

// A process of weft whose last lines are kept for errors.
export class WeftProcess {
  lines = [];
  exited = false;

  constructor(weft, args, options = {}) {
    const [command, ...before] = options.prefix ?? [];
    const whole = command ? [...before, weft, ...args] : args;
    this.child = spawn(command ?? weft, whole, { stdio: ["ignore", "pipe", "pipe"] });
    running.add(this.child);
    this.ended = new Promise((resolve) =>
      this.child.on("exit", () => {
        this.exited = true;
        running.delete(this.child);
        resolve();
      }));
    for (const stream of [this.child.stdout, this.child.stderr]) this.#read(stream);
  }

  #read(stream) {
    let pending = "";
    stream.setEncoding("utf8");
    stream.on("data", (text) => {
      const lines = (pending + text).split("\n");
      pending = lines.pop();
      this.lines.push(...lines);
      if (this.lines.length > 400) this.lines.splice(0, 200);
    });
  }

  get pid() {
    return this.child.pid;
  }
  signal(name) {
    if (!this.exited) this.child.kill(name);
  }
  async end() {
    this.signal("SIGCONT");
    this.signal("SIGTERM");
    const timer = setTimeout(() => this.signal("SIGKILL"), 2000);
    await this.ended;
    clearTimeout(timer);
  }
}

// `weft serve` without a worker of its own on a free port; `origin` is where it is.
export async function startServer(weft, folder, args) {
  const server = new WeftProcess(weft, ["serve", folder, "--no-worker", "--port", "0", ...args]);
  const address = () => server.lines.join("\n").match(/chat:\s+(http:\S+?)\/?\s*$/m)?.[1];
  const said = () => `the server's address in: ${server.lines.join("\n")}`;
  server.origin = await until(() => {
    if (server.exited) throw new Error(`weft serve ended: ${server.lines.join("\n")}`);
    return address();
  }, said, 60_000);
  return server;
}

export function startWorker(weft, origin, args, options = {}) {
  return new WeftProcess(weft, ["worker", origin.replace("http", "ws"), ...args], options);
}

// Gives a worker's cache folder what another one has downloaded; it stays a device of its own.
export function linkCache(from, to) {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (!name.startsWith("worker-id")) execFileSync("cp", ["-al", join(from, name), to]);
  }
}

// A worker in one of these states is not done with joining.
const kUnsettled = ["connecting", "measuring", "preparing"];

// The picture of a swarm that is up with so many workers, none of which is busy with joining.
export async function settledSwarm(origin, workerCount, timeoutMs = 300_000) {
  let picture = null;
  await until(async () => {
    picture = await swarmOf(origin);
    return picture.state === "up" && picture.workers.length === workerCount &&
      picture.workers.every(({ state }) => !kUnsettled.includes(state));
  }, () => `${workerCount} workers up: ${JSON.stringify(picture)}`, timeoutMs);
  return picture;
}

export async function swarmOf(origin) {
  return await (await fetch(`${origin}/api/swarm`)).json();
}

// onPicture(swarm) for every event of the feed, until the returned function is called.
export async function watchSwarm(origin, onPicture) {
  const abort = new AbortController();
  const response = await fetch(`${origin}/api/swarm/events`, { signal: abort.signal });
  const reading = (async () => {
    let pending = "";
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      const events = (pending + text).split("\n\n");
      pending = events.pop();
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1];
        if (data) onPicture(JSON.parse(data));
      }
    }
  })().catch((error) => {
    if (!abort.signal.aborted) throw error;
  });
  return async () => {
    abort.abort();
    await reading;
  };
}

// MiB of a process by a line of /proc: VmRSS is all of it, RssAnon without files that are mapped.
export function memoryMiB(pid, line = "VmRSS") {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`${line}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024;
}

// CPU nanoseconds that all threads of a process have used, by the kernel's count.
export function cpuNanoseconds(pid) {
  let total = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    total += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]);
  }
  return total;
}
