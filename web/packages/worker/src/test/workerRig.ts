// A tab's worker with a fake engine, a fake server of the package and a list of what it sent: the
// tests play the orchestrator.
import {
  decodeFrame,
  decodeShardMessage,
  decodeWholeFrame,
  encodeWholeFrame,
  isShardMessage,
  isWholeFrame,
  kControlByte,
  kProtocolVersion,
} from "@weft/wire";
import type { Frame, ShardMessage, TokensFrame, WholeFrame } from "@weft/wire";
import { decodeWorkerMessage, encodeServerMessage } from "@weft/wire/test/orchestrator.ts";
import type { ServerKind, WorkerMessage } from "@weft/wire/test/orchestrator.ts";

import { MemoryStore } from "../download/blobStore.ts";
import type { Ending, Successor } from "../membership/events.ts";
import type { WorkerStatus } from "../threads/messages.ts";
import { PackageSource, VerifiedChunks } from "../download/packageSource.ts";
import { RecentChunks } from "../download/recentChunks.ts";
import { ServerHttp } from "../download/serverHttp.ts";
import type { Fetch } from "../download/serverHttp.ts";
import { StatusBoard } from "../threads/statusBoard.ts";
import { TabWorker } from "../threads/tabWorker.ts";
import { FakeEngine, fakePackage, fakeServer } from "./fakes.ts";

export const kLayers = 6; // embedding, four transformers, head
export const kBlobBytes = 3000;
// Only a test that fails waits so long.
const kPatienceMs = 15_000;
export const rigPackage = await fakePackage(kLayers, kBlobBytes);

type Kind = NonNullable<WorkerMessage["kind"]["case"]>;
type ValueOf<K extends Kind> = Extract<WorkerMessage["kind"], { case: K }>["value"];

// Init of the fake package, with what a test changes.
export function init(change: Record<string, unknown> = {}): ServerKind {
  const value = {
    protocolVersion: kProtocolVersion,
    programVersion: 1,
    packageFormat: 1,
    serverVersion: "test",
    modelName: "fake",
    packageDigest: rigPackage.digest,
    layerCount: kLayers,
    contextLength: 64,
    sessionCount: 2,
    probeBytes: 1000n,
    swarmId: new Uint8Array(16).fill(1),
    resumeMs: 60_000,
    batchesTokens: true,
    pingIntervalMs: 500,
    ...change,
  };
  return { case: "init", value };
}

export class WorkerRig {
  readonly sent: (WorkerMessage["kind"] | Frame)[] = [];
  readonly whole: WholeFrame[] = []; // frames of its kind that were sent
  readonly shards: ShardMessage[] = []; // the same
  readonly endings: Ending[] = [];
  readonly hungUp: { reason: string; isLater: boolean }[] = [];
  readonly successors: Successor[] = [];
  silenceMs = 0; // as Init wants it
  #connections = 0;
  wantsWhole: boolean;
  probeCount = 0; // of the line
  readonly engines: FakeEngine[] = [];
  readonly cache = new MemoryStore(() => true);
  readonly board = new StatusBoard(() => undefined, () => 0);
  readonly worker: TabWorker;
  makeEngine = (): FakeEngine => new FakeEngine();

  // `share`: of the time, that it may compute.
  constructor(
    fetch: Fetch = fakeServer(rigPackage).fetch,
    wantsWhole = false,
    share = 1,
    takesExperts = false,
  ) {
    this.wantsWhole = wantsWhole;
    const origins = (): string[] => ["http://server"];
    const http = new ServerHttp(origins, "token", fetch, new AbortController().signal);
    const memory = new MemoryStore(() => true);
    const verified = new VerifiedChunks();
    this.worker = new TabWorker({
      offer: {
        kind: "web",
        name: "A tab",
        device: "A browser",
        workerId: "id",
        joinToken: "token",
        memoryBytes: 1 << 24,
        engineName: "ort-wasm",
        needsOnnx: true,
        makesTokens: 4,
        takesExperts,
        keepsState: true,
        statesAhead: true,
        dtypes: [],
        guessWeightFactor: () => 1.5,
      },
      stepsInFlight: 2,
      stepsFollow: false,
      share,
      wantsWhole,
      apiKey: "",
      onWholeEnded: () => (this.wantsWhole = false),
      note: "",
      makeEngine: () => {
        const engine = this.makeEngine();
        this.engines.push(engine);
        return Promise.resolve(engine);
      },
      measureDownload: () => {
        this.probeCount += 1;
        return Promise.resolve(5e6);
      },
      source: new PackageSource({
        http,
        cache: this.cache,
        memory,
        verified,
        recent: new RecentChunks(() => true),
        fetcher: null,
        needsPrograms: false,
      }),
      board: this.board,
      now: () => performance.now(),
      hangUp: (reason, isLater) => this.hungUp.push({ reason, isLater }),
      knowSuccessors: (successors) => this.successors.push(...successors),
      finish: (ending) => this.endings.push(ending),
    });
    this.connect();
  }

  // Another connection, or the first; what was sent over those before is forgotten.
  connect(): void {
    this.sent.length = 0;
    this.whole.length = 0;
    this.shards.length = 0;
    const number = ++this.#connections;
    this.worker.connected({
      send: (message) => {
        if (number !== this.#connections) throw new Error("Sent over a line that is gone.");
        this.#take(message);
      },
      limitSilence: (ms) => (this.silenceMs = ms),
    });
  }

  #take(message: Uint8Array<ArrayBuffer>): void {
    if (isWholeFrame(message)) {
      return void this.whole.push(decodeWholeFrame(message));
    }
    if (isShardMessage(message)) return void this.shards.push(decodeShardMessage(message));
    const isControl = message[0] === kControlByte;
    this.sent.push(isControl ? decodeWorkerMessage(message).kind : decodeFrame(message));
  }

  get engine(): FakeEngine {
    return this.engines.at(-1)!;
  }

  get status(): WorkerStatus {
    return this.board.current;
  }

  tell(kind: ServerKind): void {
    this.worker.onMessage(encodeServerMessage(kind));
  }

  tellWhole(frame: WholeFrame): void {
    this.worker.onMessage(encodeWholeFrame(frame));
  }

  tokens(): TokensFrame[] {
    return this.whole.filter((frame) => frame.kind === "tokens");
  }

  // The values of the control messages of this kind that were sent.
  all<K extends Kind>(kind: K): ValueOf<K>[] {
    return this.sent.flatMap((it) =>
      "case" in it && it.case === kind ? [it.value as ValueOf<K>] : []);
  }

  results(): Frame[] {
    return this.sent.filter((it): it is Frame => "header" in it);
  }

  // The `count`th message of this kind, once it was sent.
  async next<K extends Kind>(kind: K, count = 1): Promise<ValueOf<K>> {
    await until(() => this.all(kind).length >= count, `${count} x ${kind}`);
    return this.all(kind)[count - 1]!;
  }

  async nextResult(count = 1): Promise<Frame> {
    await until(() => this.results().length >= count, `${count} results`);
    return this.results()[count - 1]!;
  }

  async ended(): Promise<Ending> {
    await until(() => this.endings.length > 0, "an ending");
    return this.endings[0]!;
  }

  async join(change: Record<string, unknown> = {}): Promise<void> {
    this.tell(init(change));
    await this.next("connect");
  }

  // Prepares [first, end) as `stage` of `binding`.
  async giveStage(binding: number, stage: number, first: number, end: number): Promise<void> {
    this.tell({ case: "prepareStage", value: { binding, stage, layers: { first, end } } });
    await until(() => this.all("prepared").some((it) => it.binding === binding), "prepared");
  }
}

// Lets promises go on until `check` holds.
export async function until(check: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + kPatienceMs;
  while (performance.now() < endMs) {
    if (check()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`There never was ${what}.`);
}
