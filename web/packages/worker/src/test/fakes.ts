// What tests put in place of the engine, the server and the browser.
import { EngineError, SessionTable } from "@weft/engine";
import type {
  GenerateRequest,
  HeldSession,
  LayerRange,
  MemoryUse,
  SessionFork,
  StageEngine,
  StepInput,
  StepOutput,
  TokenSource,
  WeightSource,
} from "@weft/engine";

import { kChunkBytes } from "../download/manifest.ts";
import { sha256Hex } from "../download/sha256.ts";
import type { Fetch } from "../download/serverHttp.ts";

// A package of `layerCount` layers (embedding, transformers, head), each with one blob.
export interface FakePackage {
  readonly json: Uint8Array<ArrayBuffer>;
  readonly digest: Uint8Array<ArrayBuffer>; // of json
  readonly blobs: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  readonly digests: readonly string[]; // by layer
}

export const kHidden = 4;
export const kVocabulary = 16;

export async function fakePackage(layerCount: number, blobBytes: number): Promise<FakePackage> {
  const blobs = new Map<string, Uint8Array<ArrayBuffer>>();
  const digests: string[] = [];
  const listed: Record<string, unknown> = {};
  for (let layer = 0; layer < layerCount; ++layer) {
    const bytes = new Uint8Array(blobBytes).map((_, i) => (i * 31 + layer * 7) & 255);
    const chunks: string[] = [];
    for (let at = 0; at < bytes.length; at += kChunkBytes) {
      chunks.push(await sha256Hex(bytes.slice(at, at + kChunkBytes)));
    }
    const digest = await sha256Hex(bytes);
    blobs.set(digest, bytes);
    digests.push(digest);
    listed[digest] = { byte_count: blobBytes, chunks };
  }
  const layers = digests.map((digest, index) => ({
    index,
    kind: index === 0 ? "embedding" : index === layerCount - 1 ? "head" : "transformer",
    blobs: [digest],
    weight_bytes: blobBytes,
    read_bytes_per_token: blobBytes,
    kv_bytes_per_position: index === 0 || index === layerCount - 1 ? 0 : 64,
  }));
  const json = new TextEncoder().encode(
    JSON.stringify({
      format: 1,
      name: "fake",
      architecture: "fake",
      quantisation: "f32",
      boundary_dtype: "f16",
      hidden_columns: kHidden,
      vocabulary: kVocabulary,
      context_length: 64,
      lowered: false,
      layers,
      blobs: listed,
      files: {},
    }),
  );
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", json));
  return { json, digest, blobs, digests };
}

export interface FakeServer {
  readonly fetch: Fetch;
  readonly requests: string[]; // "/path" or "/path bytes=5-"
}

// A server of the package. `spoil` may replace an answer.
export function fakeServer(
  fake: FakePackage,
  spoil: (path: string, bytes: Uint8Array<ArrayBuffer>, from: number) => Response | null = () =>
    null,
): FakeServer {
  const requests: string[] = [];
  const fetch: Fetch = (url, init) => {
    if (init.signal?.aborted) return Promise.reject(new DOMException("stopped", "AbortError"));
    const path = new URL(url).pathname;
    const range = (init.headers as Record<string, string>)["Range"];
    requests.push(range === undefined ? path : `${path} ${range}`);
    const whole = bodyOf(fake, path);
    if (!whole) return Promise.resolve(new Response("{}", { status: 404 }));
    const from = range === undefined ? 0 : Number(/bytes=(\d+)-/.exec(range)?.[1]);
    const spoiled = spoil(path, whole, from);
    if (spoiled) return Promise.resolve(spoiled);
    const status = range === undefined ? 200 : 206;
    return Promise.resolve(new Response(whole.slice(from), { status }));
  };
  return { fetch, requests };
}

function bodyOf(fake: FakePackage, path: string): Uint8Array<ArrayBuffer> | undefined {
  if (path === "/package/weft.json") return fake.json;
  if (path === "/probe") return new Uint8Array(1000);
  if (path.startsWith("/package/stages/")) return new Uint8Array(10);
  return fake.blobs.get(path.slice("/package/blobs/".length));
}

// A body that breaks after `bytes`.
export function brokenBody(bytes: Uint8Array<ArrayBuffer>, status = 200): Response {
  let sent = false;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent) return controller.error(new TypeError("network error"));
      controller.enqueue(bytes);
      sent = true;
    },
  });
  return new Response(stream, { status });
}

// An engine whose hidden rows are its input plus the layers it ran, with the real session rules.
// `gate` can hold a step up.
export class FakeEngine implements StageEngine {
  readonly name = "ort-wasm";
  readonly kvFactor = 2;
  readonly copiesKv = true;
  readonly loaded = new Set<number>();
  readonly table = new SessionTable();
  readonly reads: string[] = [];
  readonly inputs: StepInput[] = [];
  gate: Promise<void> = Promise.resolve();
  failLoadAt = -1;
  loadAhead?: (layer: number, source: WeightSource) => Promise<void>;
  failNextStep: Error | null = null;
  readonly requests: GenerateRequest[] = [];
  failAfter = Infinity; // tokens
  isDisposed = false;

  async load({ first, end }: LayerRange, source: WeightSource): Promise<void> {
    for (let layer = first; layer < end; ++layer) {
      if (this.loaded.has(layer)) continue;
      for (const digest of source.layerBlobs(layer)) {
        await source.readBlob(digest);
        this.reads.push(digest);
      }
      if (layer === this.failLoadAt) {
        throw new EngineError("out_of_memory", `Layer ${layer} does not fit.`);
      }
      this.loaded.add(layer);
      this.table.addLayer(layer, { kv: source.layerKvBytes(layer) > 0, state: false });
    }
  }

  unload({ first, end }: LayerRange): Promise<void> {
    for (let layer = first; layer < end; ++layer) {
      if (this.loaded.delete(layer)) this.table.removeLayer(layer);
    }
    return Promise.resolve();
  }

  isLoaded({ first, end }: LayerRange): boolean {
    for (let layer = first; layer < end; ++layer) if (!this.loaded.has(layer)) return false;
    return true;
  }

  async step(input: StepInput): Promise<StepOutput> {
    await this.gate;
    this.inputs.push(input);
    if (this.failNextStep) {
      const error = this.failNextStep;
      this.failNextStep = null;
      throw error;
    }
    this.table.check(input.layers, input.runs);
    this.table.commit(input.layers, input.runs);
    const rows = input.runs.reduce((sum, run) => sum + run.count, 0);
    const values = input.layers.first === 0 ? Array<number>(rows * kHidden).fill(0) : input.hidden;
    const depth = input.layers.end - input.layers.first;
    const hidden = input.runs.some((run) => run.output.kind === "hidden")
      ? Float32Array.from(values, (value) => value + depth)
      : new Float32Array(0);
    const selections = input.runs
      .filter(({ output }) => ["argmax", "candidates", "draw"].includes(output.kind))
      .map(({ output }) => ({
        candidates: [
          { tokenId: 3, logit: 2.5 },
          { tokenId: 1, logit: 2 },
        ].slice(0, "count" in output ? output.count : 2),
        drawn: { tokenId: 9, logit: 1 },
        logsumexp: 4,
        scaledSum: 1.5,
      }));
    return { hidden, selections, logits: new Float32Array(0) };
  }

  // Each token is the one before plus one. An interval of every session after the other.
  async generateAll(layers: LayerRange, source: TokenSource): Promise<void> {
    let active: { request: GenerateRequest; made: number }[] = [];
    for (let round = 0; round === 0 || !source.pauses(); ++round) {
      for (const request of source.take()) {
        this.requests.push(request);
        const run = { ...request, count: 1, output: { kind: "none" } as const };
        try {
          this.table.check(layers, [run]);
          active.push({ request, made: 0 });
        } catch (error) {
          request.onFailed?.(error);
        }
      }
      if (active.length === 0) return;
      await this.gate;
      const goesOn = active.map((each) => this.#interval(layers, each));
      active = active.filter((_, index) => goesOn[index]);
      await Promise.resolve();
    }
  }

  #interval(layers: LayerRange, active: { request: GenerateRequest; made: number }): boolean {
    const { request, made } = active;
    if (made >= this.failAfter) throw new EngineError("unavailable", "The GPU was lost: test.");
    const tokens: number[] = [];
    let isStopped = false;
    while (!isStopped && tokens.length < Math.min(request.interval, request.count - made)) {
      tokens.push((request.firstToken + made + tokens.length + 1) % kVocabulary);
      isStopped = request.stopTokens?.includes(tokens.at(-1)!) === true;
    }
    const firstPosition = request.firstPosition + made;
    const run = { ...request, firstPosition, count: tokens.length };
    this.table.commit(layers, [{ ...run, output: { kind: "none" } }]);
    active.made += tokens.length;
    const isLast = isStopped || active.made === request.count;
    return request.onTokens(tokens, isLast, 1) && !isLast;
  }

  truncate(): Promise<void> {
    return Promise.resolve();
  }
  fork(layers: LayerRange, fork: SessionFork): Promise<void> {
    return Promise.resolve().then(() => {
      this.table.checkFork(layers, fork);
      this.table.fork(layers, fork);
    });
  }
  release(session: number): void {
    this.table.release(session);
  }
  releaseAll(): void {
    this.table.releaseAll();
  }
  heldSession(session: number, layers: LayerRange): HeldSession {
    return this.table.held(session, layers);
  }
  exportKv(): Promise<Uint16Array> {
    return Promise.resolve(new Uint16Array(0));
  }
  importKv(): Promise<void> {
    return Promise.resolve();
  }
  memory(): MemoryUse {
    return { weightBytes: this.loaded.size * 1000, kvBytes: 0, scratchBytes: 0 };
  }
  dispose(): Promise<void> {
    this.isDisposed = true;
    return Promise.resolve();
  }
}
