// A swarm of emulated devices: native workers with shares of a core, behind links with delays and
// rates. Every worker has the model's weights on its disk already.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Relays } from "../lib/relays.mjs";
import {
  linkCache, settledSwarm, startServer, startWorker, swarmOf, until,
} from "../lib/weft_processes.mjs";
import { CpuGroup } from "./cpu_quota.mjs";

// Fills `cache` with all weights of a package.
export async function warmCache(weft, folder, cache) {
  const server = await startServer(weft, folder, []);
  const worker = startWorker(weft, server.origin, ["--cache", cache]);
  try {
    await until(async () => (await swarmOf(server.origin)).state === "up",
      () => `a first worker: ${worker.lines.join("\n")}`);
  } finally {
    await worker.end();
    await server.end();
  }
}

export class DeviceSwarm {
  groups = [];
  workers = [];

  // `settings`: {weft, folder, cache, context, settleMs}; `devices` as in configurations.mjs;
  // `offers`: bytes of each.
  static async start(settings, devices, offers) {
    const swarm = new DeviceSwarm();
    try {
      await swarm.#start(settings, devices, offers);
    } catch (error) {
      await swarm.end();
      throw error;
    }
    return swarm;
  }

  async #start({ weft, folder, cache, context, settleMs }, devices, offers) {
    this.scratch = mkdtempSync(join(tmpdir(), "weft-cost-model-"));
    const limits = ["--context", String(context), "--sessions", "1"];
    this.server = await startServer(weft, folder, limits);
    this.origin = this.server.origin;
    this.relays = new Relays(this.origin);
    for (const [index, device] of devices.entries()) {
      const link = await this.relays.add();
      await this.relays.shape(index, device);
      const group = new CpuGroup(index, device.core);
      this.groups.push(group);
      const own = join(this.scratch, String(index));
      linkCache(cache, own);
      const args = ["--memory", String(offers[index]), "--threads", String(device.threads),
        "--cache", own, "--name", device.name ?? `d${index}`];
      this.workers.push(startWorker(weft, link, args, { prefix: group.prefix }));
    }
    await this.#settle(devices.length, settleMs);
  }

  // Until the plan has been the same for a while: what measuring brought is in it by then.
  async #settle(count, calmMs) {
    let since = performance.now();
    let version = null;
    await until(async () => {
      this.picture = await settledSwarm(this.origin, count);
      if (this.picture.plan_version !== version) {
        since = performance.now();
        version = this.picture.plan_version;
      }
      return performance.now() - since > calmMs;
    }, () => "a plan that stays");
  }

  async end() {
    await Promise.all(this.workers.map((worker) => worker.end()));
    await this.relays?.close();
    await this.server?.end();
    for (const group of this.groups) group.remove();
    if (this.scratch) rmSync(this.scratch, { recursive: true, force: true });
  }
}
