// One device from its first connection to its goodbye: gives its hosts what Node and Dawn have.
import { randomBytes } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";

import type { BlobStore } from "@weft/worker/download/blobStore.ts";
import { WorkerHost } from "@weft/worker/threads/host.ts";
import type { HostParts } from "@weft/worker/threads/hostParts.ts";
import { ownEngine } from "@weft/worker/threads/ownEngine.ts";
import { ServerList } from "@weft/worker/threads/serverList.ts";
import type { Server } from "@weft/worker/threads/serverList.ts";
import { FileTuneStore } from "@weft/worker/threads/tuneStore.ts";

import { Cells } from "./cells.ts";
import type { StartHelping } from "./cells.ts";
import { DiskStore } from "./disk/diskStore.ts";
import { takeWorkerId } from "./disk/workerId.ts";
import type { ChosenAdapter } from "./gpu/adapters.ts";
import type { HelpOptions } from "./options.ts";
import { followCells } from "./server/cellList.ts";
import type { Cell } from "./server/cellList.ts";
import { Connectors } from "./server/connecting.ts";
import { FetchThreads, serveFetches } from "./server/fetchThreads.ts";
import { nodeFetch } from "./server/http.ts";
import { openSocket } from "./server/socket.ts";
import type { Display } from "./terminal/display.ts";

const kWithoutGpu = "'weft worker' without --gpu helps with the processor.";
const kMostNameBytes = 64;
const kMostFetchThreads = 4; // as many blobs are downloaded at once

// Where the threads come from that download: the bundle is its own entry (main.ts). A machine whose
// cores are needed elsewhere gets none of its own, and downloads as a script would.
function fetchOnThreads(
  connectors: Connectors, { servers, isInsecure }: HelpOptions,
): FetchThreads {
  const count = Math.min(kMostFetchThreads, availableParallelism() - 1);
  const workerData: FetchJob = { servers, isInsecure };
  const workers = Array.from({ length: Math.max(0, count) }, () =>
    new Worker(new URL(import.meta.url), { workerData }));
  const threads = new FetchThreads(workers, nodeFetch((url) => connectors.of(url)));
  for (const [index, worker] of workers.entries()) {
    worker.unref();
    worker.on("error", (error) => threads.onGone(index, error.message));
    worker.on("exit", () => threads.onGone(index, "its thread has ended"));
  }
  return threads;
}

// What a fetch thread is told when it starts.
export interface FetchJob {
  readonly servers: readonly Server[];
  readonly isInsecure: boolean;
}

export function serveAsThread(port: MessagePort, { servers, isInsecure }: FetchJob): void {
  const connectors = new Connectors(servers, isInsecure);
  const fetch = nodeFetch((url) => connectors.of(url));
  serveFetches(port, fetch, (more) => connectors.know(more));
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

// What the hosts of all models share: connectors, a folder of weights, and threads.
type SharedParts = Omit<HostParts, "openSocket" | "publish">;

function sharedParts(
  options: HelpOptions,
  adapter: ChosenAdapter,
  connectors: Connectors,
  display: Display,
): SharedParts {
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
  let store: Promise<BlobStore | null> | null = null;
  const threads = fetchOnThreads(connectors, options);
  const engine = ownEngine(adapter.gpu, device, diskTuneStore(options.cache));
  return {
    kind: "headless",
    withoutGpu: kWithoutGpu,
    fetch: threads.fetch,
    knowServers: (servers) => {
      connectors.know(servers);
      threads.know(servers);
    },
    blobFetcher: null,
    openStore: () => (store ??= openStore()),
    chooseEngine: () => Promise.resolve(engine),
    now: () => performance.now(),
    random: () => randomBytes(4).readUInt32LE() / 2 ** 32,
    obstacle: () => "",
  };
}

// The worker's address, of one model where the server has several.
function withCell(url: string, cell: Cell | null): string {
  if (!cell) return url;
  const named = new URL(url);
  named.searchParams.set("cell", `${cell.cell}`);
  return named.href;
}

// Passes lists of models on, and says when there is none.
function tellCells(cells: Cells, display: Display): (list: readonly Cell[] | null) => void {
  let isIdle = false;
  return (list) => {
    const wasIdle = isIdle;
    isIdle = list?.length === 0;
    if (isIdle && !wasIdle) display.say("No model is loaded: one will be when it is asked for.");
    cells.onList(list);
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
  const { servers, joinToken, apiKey } = options;
  const [{ origin: serverOrigin }, ...moreServers] = servers as [Server, ...Server[]];
  const connectors = new Connectors(servers, options.isInsecure);
  const shared = sharedParts(options, adapter, connectors, display);
  const workerId = takeWorkerId(options.cache, adapter.index);
  const start: StartHelping = (cell, offerBytes, tell) => {
    let isOver = false; // stopped or refused
    let onOver: () => void = () => undefined;
    const host = new WorkerHost({
      ...shared,
      openSocket: (url, events) =>
        openSocket(connectors.of(url), joinToken, withCell(url, cell), events),
      publish: ({ status }) => {
        tell(status);
        isOver = status.phase === "stopped" || status.phase === "refused";
        if (isOver) onOver();
      },
    });
    host.onMessage({
      kind: "start",
      serverOrigin,
      moreServers,
      joinToken,
      name: limitName(options.name),
      workerId,
      memoryBytes: offerBytes,
      isPhone: false,
      engine: "webgpu",
    });
    if (options.wantsWhole) host.onMessage({ kind: "runHere", isWanted: true, apiKey });
    return {
      stop: async () => {
        const over = new Promise<void>((resolve) => (onOver = resolve));
        if (!isOver) {
          host.onMessage({ kind: "stop" });
          await over;
        }
        // Dawn does not survive the end of its process while it computes.
        await host.closed;
      },
    };
  };

  const asking = new AbortController();
  const status = await new Promise<number>((resolve) => {
    const cells = new Cells(memoryBytes, start, {
      onStatus: (model, shown) => display.show(shown, model),
      onGone: (model) => display.forget(model),
      onRefused: () => void cells.leave().then(() => resolve(1)),
    });
    onStopSignal(() => {
      display.say("Leaving; once more ends at once.");
      void cells.leave().then(() => resolve(0));
    });
    const question =
      { servers: new ServerList(servers), joinToken, device: workerId, memoryBytes };
    const fetch = nodeFetch((url) => connectors.of(url));
    const tell = tellCells(cells, display);
    void followCells(fetch, question, asking.signal, tell);
  });
  asking.abort();
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
