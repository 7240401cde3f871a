// A cluster of its own for tests and benchmarks: PostgreSQL, servers with a state folder each, and
// native workers that know all of the servers.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { freePort, postgres } from "./postgres.mjs";
import { eventually, nativeWorker, packageOf, serve, swarmOf, weft } from "./weft.mjs";

const kPatienceMs = 60_000;

export const clusterOf = async ({ origin }) =>
  await (await fetch(`${origin}/api/cluster`)).json();

export async function metricOf({ origin }, name) {
  const text = await (await fetch(`${origin}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

export class TestCluster {
  servers = []; // those that run, in the order of their names
  workers = [];
  folder = mkdtempSync(join(tmpdir(), "weft-cluster-"));
  key = join(this.folder, "cluster.key");

  // `options`: { servers, workers, context, sessions, memory, serve, startWorker, machines }.
  // `serve` are more arguments of servers. `startWorker(name, origins)` gives a process in place of
  // a native worker. `machines` says where they run (bench/failover/machines.mjs): its host is
  // this process's address, and place(name) gives { host, prefix }, a server's address and what its
  // program is started with.
  static async start(options) {
    const cluster = new TestCluster();
    cluster.options = { servers: 3, workers: 3, context: 512, sessions: 2, memory: "20MiB",
      serve: [], ...options };
    try {
      await cluster.#start();
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  async #start() {
    this.database = await postgres(this.options.machines?.host);
    const { status, stderr } = spawnSync(weft,
      ["cluster", "init", this.database.url, "--cluster-key", this.key]);
    assert.equal(status, 0, stderr.toString());
    for (const name of "abcdefgh".slice(0, this.options.servers))
      this.servers.push(await this.startServer(name, await freePort()));
    // Servers that are reached from elsewhere want a key and a token, the same at all of them.
    if (this.options.machines) {
      const [output, secret] = [this.servers[0].output, (name) => new RegExp(`${name}: +(\\w+)`)];
      process.env.WEFT_API_KEY = secret("API key").exec(output)[1];
      process.env.WEFT_JOIN_TOKEN = secret("join token").exec(output)[1];
    }
    const origins = this.servers.map(({ origin }) => origin.replace(/^http/, "ws"));
    const { machines } = this.options;
    const prints = machines ? ["--fingerprint", machines.tls.fingerprint] : [];
    for (let i = 0; i < this.options.workers; ++i)
      this.workers.push(this.options.startWorker
        ? this.options.startWorker(`device ${i}`, origins)
        : nativeWorker(origins[0], [
          ...origins.slice(1), ...prints, "--name", `device ${i}`, "--memory", this.options.memory,
          "--threads", "1", "--cache", join(this.folder, `cache ${i}`),
        ]));
  }

  // `models`: one or more that it serves.
  async startServer(name, port, models = ["weft-tiny"]) {
    const { context, sessions, machines } = this.options;
    const { host, prefix } = machines?.place(name) ?? { host: "127.0.0.1", prefix: [] };
    const origin = `${machines ? "https" : "http"}://${host}:${port}`;
    const reach = machines
      ? ["--address", host, "--tls", machines.tls.certificate, "--tls-key", machines.tls.key] : [];
    const server = await serve(models.map((model) => packageOf(model)), [
      "--port", String(port), "--url", origin, "--cluster", this.database.url,
      "--cluster-key", this.key, "--context", String(context), "--sessions", String(sessions),
      "--no-worker", ...reach, ...this.options.serve,
    ], { XDG_STATE_HOME: join(this.folder, name) }, prefix);
    return Object.assign(server, { name, port, origin });
  }

  // The leader, once the model is up with all workers.
  async leader(servers = this.servers) {
    let problem = "nobody leads";
    for (const server of servers) {
      if (!(await clusterOf(server)).leads) continue;
      const swarm = await swarmOf(server.origin);
      if (swarm.state === "up" && swarm.workers.length === this.options.workers)
        return { server, swarm };
      problem = `${swarm.workers.length} workers: ${swarm.message}`;
    }
    throw new Error(problem);
  }

  // The same, once all servers have links to each other.
  async settled() {
    return await eventually(async () => {
      for (const server of this.servers) {
        const { servers: known } = await clusterOf(server);
        assert.ok(known.length === this.servers.length && known.every((each) => each.is_linked),
          "the servers are not linked yet");
      }
      return await this.leader();
    }, kPatienceMs);
  }

  // The server that takes the place of one that is gone.
  async startAgain(gone) {
    await gone.exited;
    const server = await this.startServer(gone.name, gone.port);
    this.servers[this.servers.indexOf(gone)] = server;
    return server;
  }

  // How often a token came otherwise than before, at all servers that run.
  async differences() {
    const counts = await Promise.all(this.servers.map((server) =>
      metricOf(server, "weft_splice_differs_total")));
    return counts.reduce((sum, each) => sum + each, 0);
  }

  // What `action` gives; its error has the last words of all processes.
  async explained(action) {
    try {
      return await action();
    } catch (error) {
      const said = [...this.servers, ...this.workers].map(({ output }) => output.slice(-4000));
      error.stack += `\n${said.join("\n---\n")}`;
      throw error;
    }
  }

  async stop() {
    for (const { child } of [...this.workers, ...this.servers]) child.kill("SIGKILL");
    if (this.database) await this.database.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
