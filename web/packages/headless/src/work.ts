// One worker from its first connection to its goodbye: gives the host what Node and Dawn have.
import { randomBytes } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";

import type { BlobStore } from "@weft/worker/download/blobStore.ts";
import type { Fetch } from "@weft/worker/download/serverHttp.ts";
import { WorkerHost } from "@weft/worker/threads/host.ts";
import type { HostParts } from "@weft/worker/threads/hostParts.ts";
import type { WorkerStatus } from "@weft/worker/threads/messages.ts";
import { ownEngine } from "@weft/worker/threads/ownEngine.ts";
import { FileTuneStore } from "@weft/worker/threads/tuneStore.ts";

import { DiskStore } from "./disk/diskStore.ts";
import { takeWorkerId } from "./disk/workerId.ts";
import type { ChosenAdapter } from "./gpu/adapters.ts";
import type { HelpOptions } from "./options.ts";
import { Connector } from "./server/connecting.ts";
import type { Trust } from "./server/connecting.ts";
import { FetchThreads, serveFetches } from "./server/fetchThreads.ts";
import { nodeFetch } from "./server/http.ts";
import { openSocket } from "./server/socket.ts";
import type { Display } from "./terminal/display.ts";

const kWithoutGpu = "'weft worker' without --gpu helps with the processor.";
const kMostNameBytes = 64;
const kMostFetchThreads = 4; // as many blobs are downloaded at once

// Where the threads come from that download: the bundle is its own entry (main.ts). A machine whose
// cores are needed elsewhere gets none of its own, and downloads as a script would.
function fetchOnThreads(connector: Connector, { origin, trust }: HelpOptions): Fetch {
  const count = Math.min(kMostFetchThreads, availableParallelism() - 1);
  const workers = Array.from({ length: Math.max(0, count) }, () =>
    new Worker(new URL(import.meta.url), { workerData: { origin, trust } satisfies FetchJob }));
  const threads = new FetchThreads(workers, nodeFetch(connector));
  for (const [index, worker] of workers.entries()) {
    worker.unref();
    worker.on("error", (error) => threads.onGone(index, error.message));
    worker.on("exit", () => threads.onGone(index, "its thread has ended"));
  }
  return threads.fetch;
}

// What a fetch thread is told when it starts.
export interface FetchJob {
  readonly origin: string;
  readonly trust: Trust;
}

export function serveAsThread(port: MessagePort, { origin, trust }: FetchJob): void {
  serveFetches(port, nodeFetch(new Connector(origin, trust)));
}

// The kernels that were found fastest, of every adapter of this machine.
export function diskTuneStore(folder: string): FileTuneStore {
  const path = join(folder, "gpu-tuning.json");
  return new FileTuneStore({
    read: () => readFile(path, "utf8"),
    write: async (text) => {
      const fresh = `${path}.${process.pid}`;
      await writeFile(fresh, text);
      await rename(fresh, path);
    },
  });
}

// Cut between characters: the wire has room for so many bytes.
export function limitName(name: string): string {
  let limited = "";
  for (const character of name.trim()) {
    if (Buffer.byteLength(limited + character) > kMostNameBytes) break;
    limited += character;
  }
  return limited;
}

function partsOf(
  options: HelpOptions,
  adapter: ChosenAdapter,
  display: Display,
  publish: HostParts["publish"],
): HostParts {
  const connector = new Connector(options.origin, options.trust);
  const device = `${adapter.name}, Node ${process.versions.node}`;
  const openStore = async (): Promise<BlobStore | null> => {
    try {
      return await DiskStore.open(join(options.cache, "blobs"), (text) => display.say(text));
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      display.say(`No weights are kept for the next time: ${why}.`);
      return null;
    }
  };
  return {
    kind: "headless",
    withoutGpu: kWithoutGpu,
    openSocket: (url, events) => openSocket(connector, options.joinToken, url, events),
    fetch: fetchOnThreads(connector, options),
    blobFetcher: null,
    openStore,
    chooseEngine: () =>
      Promise.resolve(ownEngine(adapter.gpu, device, diskTuneStore(options.cache))),
    publish,
    now: () => performance.now(),
    random: () => randomBytes(4).readUInt32LE() / 2 ** 32,
    obstacle: () => "",
  };
}

// Settles with the exit status: 0 after a goodbye, 1 when the server refused this worker or its
// GPU cannot be used.
export async function work(
  options: HelpOptions,
  adapter: ChosenAdapter,
  memoryBytes: number,
  display: Display,
): Promise<number> {
  let host: WorkerHost | null = null;
  const status = await new Promise<number>((resolve) => {
    const publish = (status: WorkerStatus): void => {
      display.show(status);
      if (status.phase === "stopped") resolve(0);
      if (status.phase === "refused") resolve(1);
    };
    const started = new WorkerHost(
      partsOf(options, adapter, display, ({ status }) => publish(status)),
    );
    host = started;
    onStopSignal(() => {
      display.say("Leaving; once more ends at once.");
      started.onMessage({ kind: "stop" });
    });
    started.onMessage({
      kind: "start",
      serverOrigin: options.origin,
      joinToken: options.joinToken,
      name: limitName(options.name),
      workerId: takeWorkerId(options.cache, adapter.index),
      memoryBytes,
      isPhone: false,
      engine: "webgpu",
    });
    if (options.wantsWhole) {
      started.onMessage({ kind: "runHere", isWanted: true, apiKey: options.apiKey });
    }
  });
  // Dawn does not survive the end of its process while it computes.
  await host!.closed;
  return status;
}

// A second signal has the effect that it would have had without us.
function onStopSignal(leave: () => void): void {
  const signals = ["SIGINT", "SIGTERM"] as const;
  let isLeaving = false;
  for (const signal of signals) {
    process.on(signal, () => {
      if (isLeaving) {
        for (const each of signals) process.removeAllListeners(each);
        process.kill(process.pid, signal);
        return;
      }
      isLeaving = true;
      leave();
    });
  }
}
