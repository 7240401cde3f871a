// One cell's swarm: a server, its workers behind relays, and how to take it down again.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { offerFor } from "../lib/offers.mjs";
import { Relays } from "../lib/relays.mjs";
import { settledSwarm, startServer, swarmOf, until } from "../lib/weft_processes.mjs";
import { NativeMember, TabMember } from "./members.mjs";

// What a tab's wasm engine takes for a byte of f16 weights and, a quarter, for copies of keys and
// values in f32 (web/packages/worker/src/stage/memoryFactor.ts).
const kTabWeightFactor = 3;

function inMemory(manifest, factor) {
  const layers = manifest.layers.map(
    (layer) => ({ ...layer, weight_bytes: layer.weight_bytes * factor }));
  return { ...manifest, layers };
}

export class Swarm {
  members = [];

  // `settings`: {weft, threads, blobs, tabs}.
  static async start(cell, { folder, manifest }, context, settings) {
    const swarm = new Swarm();
    try {
      await swarm.#start(cell, folder, manifest, context, settings);
    } catch (error) {
      await swarm.end();
      throw error;
    }
    return swarm;
  }

  async #start(cell, folder, manifest, context, settings) {
    this.scratch = mkdtempSync(join(tmpdir(), "weft-churn-"));
    const limits = ["--context", String(context), "--sessions", "1"];
    const page = settings.tabs ? ["--web-root", settings.tabs.harness] : [];
    this.server = await startServer(settings.weft, folder, [...limits, ...page]);
    this.origin = this.server.origin;
    this.relays = new Relays(this.origin);
    this.layerBytes = manifest.layers.map((layer) => layer.weight_bytes);
    const factor = cell.kind === "tabs" ? kTabWeightFactor : 1;
    this.offerBytes = offerFor(inMemory(manifest, factor), context, cell.needed);
    for (let index = 0; index + 1 < cell.workers; ++index) await this.#add(index, cell, settings);
    await this.#untilJoined(cell.workers - 1);
    // The last one alone: how long a worker that returns takes to join.
    const began = performance.now();
    await this.#add(cell.workers - 1, cell, settings);
    await this.#untilJoined(cell.workers);
    this.joinMs = performance.now() - began;
    this.stages = (await settledSwarm(this.origin, cell.workers)).stages.length;
  }

  async #add(index, cell, settings) {
    const link = await this.relays.add();
    const member = cell.kind === "tabs"
      ? new TabMember(index, link, this.relays, { tabs: settings.tabs,
        offerBytes: this.offerBytes, context: await settings.browser.newContext() })
      : new NativeMember(index, link, this.relays, { ...settings, offerBytes: this.offerBytes,
        folder: join(this.scratch, String(index)) });
    this.members.push(member);
    await member.start();
  }

  async #untilJoined(count) {
    let workers = [];
    await until(async () => {
      ({ workers } = await swarmOf(this.origin));
      return workers.filter(({ state }) => state !== "connecting").length === count;
    }, () => `${count} workers: ${JSON.stringify(workers)}`);
  }

  // Who has a part now: [{index, first, end}], and how many workers stand by.
  async parts() {
    const picture = await swarmOf(this.origin);
    const names = new Map(picture.workers.map(({ id, name }) => [id, name]));
    const parts = picture.stages.map((stage) => ({
      index: this.members.findIndex(({ name }) => name === names.get(stage.worker)),
      first: stage.first_layer, end: stage.end_layer,
    }));
    const standbys = picture.workers.filter(({ state }) => state === "standby");
    return { parts, standby: standbys.length > 0 };
  }

  async end() {
    await Promise.all(this.members.map((member) => member.end()));
    await this.relays?.close();
    await this.server?.end();
    if (this.scratch) rmSync(this.scratch, { recursive: true, force: true });
  }
}
