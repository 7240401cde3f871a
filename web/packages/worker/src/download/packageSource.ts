// The package as the server gives it, through the blob store: every byte that is given out was
// verified against the manifest, and the manifest against the digest that Init named.
import { EngineError } from "@weft/engine";
import type { LayerRange, WeightSource } from "@weft/engine";

import { append, fetchRest, StoreFailed } from "./blobFetch.ts";
import type { NamedBlob } from "./blobFetch.ts";
import type { BlobStore } from "./blobStore.ts";
import type { BlobFetcher } from "./blobThreads.ts";
import { kChunkBytes, parseManifest } from "./manifest.ts";
import type { BlobInfo, Manifest } from "./manifest.ts";
import type { RecentChunks } from "./recentChunks.ts";
import type { ServerHttp } from "./serverHttp.ts";
import { sha256Hex } from "./sha256.ts";

// A graph holds no weights; more than this is no graph of a stage.
const kMaxGraphBytes = 64 << 20;
const kMaxManifestBytes = 256 << 20;
// Blobs that are on their way at once: one connection waits while another's bytes are hashed.
const kBlobsAtOnce = 4;

export interface PackageSourceOptions {
  readonly http: ServerHttp;
  // The cache, and the tab's memory for what the cache does not take.
  readonly cache: BlobStore;
  readonly memory: BlobStore;
  // Which chunks of the cache were verified since this tab was opened: these are not hashed again,
  // over reconnections too.
  readonly verified: VerifiedChunks;
  // Whether a layer is only complete with its program.
  readonly needsPrograms: boolean;
  readonly recent: RecentChunks;
  // Threads that fetch; null: this one does.
  readonly fetcher: BlobFetcher | null;
}

// Remembers of each blob which of its chunks in the cache had the right hash when they were written
// or read. Memory needs no such list: what it holds was verified on its way in.
export class VerifiedChunks {
  readonly #chunks = new Map<string, Set<number>>();

  has(digest: string, index: number): boolean {
    return this.#chunks.get(digest)?.has(index) === true;
  }

  add(digest: string, index: number): void {
    const chunks = this.#chunks.get(digest) ?? new Set();
    this.#chunks.set(digest, chunks.add(index));
  }

  forget(digest: string): void {
    this.#chunks.delete(digest);
  }

  clear(): void {
    this.#chunks.clear();
  }
}

export class PackageSource implements WeightSource {
  readonly #options: PackageSourceOptions;
  #manifest: Manifest | null = null;
  #digest = ""; // of the manifest

  constructor(options: PackageSourceOptions) {
    this.#options = options;
  }

  get manifest(): Manifest {
    if (!this.#manifest) throw new EngineError("unavailable", "The manifest is not loaded yet.");
    return this.#manifest;
  }

  // Kept on the device for the next time, and in the tab's memory.
  get cachedBytes(): number {
    return this.#options.cache.cachedBytes;
  }

  get memoryBytes(): number {
    return this.#options.memory.memoryBytes;
  }

  async fetchManifest(digest: string): Promise<Manifest> {
    // A server of several models has several packages.
    const path = `/package/weft.json?package=${digest}`;
    const bytes = await this.#options.http.getBytes(path, kMaxManifestBytes);
    const actual = await sha256Hex(bytes);
    if (actual !== digest) {
      throw new EngineError(
        "invalid_data",
        `The package manifest has SHA-256 ${actual}, the server announced ${digest}.`,
      );
    }
    this.#manifest = parseManifest(bytes);
    this.#digest = digest;
    return this.#manifest;
  }

  async readGraph({ first, end }: LayerRange): Promise<Uint8Array<ArrayBuffer>> {
    return await this.#options.http.getBytes(
      `/package/stages/${first}-${end}.onnx?package=${this.#digest}`,
      kMaxGraphBytes,
    );
  }

  layerBlobs(layer: number): readonly string[] {
    return this.manifest.layers[layer]?.blobs ?? [];
  }

  layerProgram(layer: number): string {
    return this.manifest.layers[layer]?.program ?? "";
  }

  layerKvBytes(layer: number): number {
    return this.manifest.layers[layer]?.kvBytesPerPosition ?? 0;
  }

  #blobsOf(layer: number): string[] {
    const blobs = [...this.layerBlobs(layer)];
    if (this.#options.needsPrograms && this.layerProgram(layer) !== "") {
      blobs.push(this.layerProgram(layer));
    }
    return blobs;
  }

  #has(digest: string): boolean {
    return this.#restBytes(digest) === 0;
  }

  // A blob longer than it should be is not the blob: it is fetched from its beginning.
  #restBytes(digest: string): number {
    const { byteCount } = this.#info(digest);
    const { cache, memory } = this.#options;
    const held = [cache, memory].map((store) => store.heldBytes(digest));
    return byteCount - Math.max(0, ...held.filter((bytes) => bytes <= byteCount));
  }

  downloadedLayers(): number[] {
    return this.manifest.layers
      .map((_, layer) => layer)
      .filter((layer) => this.#blobsOf(layer).every((digest) => this.#has(digest)));
  }

  // What the layers miss, less what an unfinished download has left behind; a blob
  // that two layers share counts once.
  missingBytes(layers: readonly number[]): number {
    return this.missingOf(layers.flatMap((layer) => this.#blobsOf(layer)));
  }

  // The same of some blobs.
  missingOf(digests: readonly string[]): number {
    let bytes = 0;
    for (const digest of new Set(digests)) bytes += this.#restBytes(digest);
    return bytes;
  }

  // Fetches what the layers miss, and hashes what an earlier visit left of them and was not looked
  // at yet (what is torn is fetched again), several blobs at once in the order of the layers: so
  // that loading only reads, the last blobs of a layer come beside the first ones of the next, and
  // each layer is loaded while the next ones come. The hashing is done on threads of the browser's
  // own: a step in progress waits for no more than the hand-over of a chunk.
  //
  // `onBytes` is told of every verified piece that came, `onLayer` of the layers in their order, as
  // soon as all of each is there. Throws EngineError; of the code `cancelled` after `signal`, and
  // what was verified by then stays.
  async download(
    layers: readonly number[],
    onBytes: (bytes: number) => void,
    signal: AbortSignal | null = null,
    onLayer: (layer: number) => void = () => undefined,
  ): Promise<void> {
    const open = layers.map((layer) => ({ layer, missing: new Set(this.#blobsOf(layer)) }));
    const tellLayers = (): void => {
      while (open[0]?.missing.size === 0) onLayer(open.shift()!.layer);
    };
    tellLayers();
    const blobs = open.flatMap(({ missing }) => [...missing]);
    await this.downloadBlobs(blobs, onBytes, signal, (digest) => {
      for (const { missing } of open) missing.delete(digest);
      tellLayers();
    });
  }

  // The same for some blobs; `onBlob` is told of each that is there.
  async downloadBlobs(
    digests: readonly string[],
    onBytes: (bytes: number) => void,
    signal: AbortSignal | null = null,
    onBlob: (digest: string) => void = () => undefined,
  ): Promise<void> {
    if (digests.length === 0) return;
    const rest = [...new Set(digests)];
    this.#options.recent.expect(
      new Map(rest.map((digest) => [digest, this.#info(digest).byteCount])));
    const lanes = Array.from({ length: kBlobsAtOnce }, async () => {
      try {
        for (let next = rest.shift(); next !== undefined; next = rest.shift()) {
          if (!this.#has(next)) await this.#fetchBlob(next, onBytes, signal);
          await this.#verifyBlob(next, signal);
          onBlob(next);
        }
      } finally {
        rest.length = 0; // a lane that fails ends the others behind their blobs
      }
    });
    // Nothing writes behind this call.
    const failed = (await Promise.allSettled(lanes)).find((lane) => lane.status === "rejected");
    if (failed) throw failed.reason;
  }

  async #verifyBlob(digest: string, signal: AbortSignal | null): Promise<void> {
    await this.#healing(digest, async (info, store) => {
      for (const index of info.chunks.keys()) {
        if (this.#isVerified(store, digest, index)) continue;
        this.#options.http.checkStopped(signal);
        const chunk = await this.#readChunk(store, digest, index);
        if (!chunk) return null;
        this.#options.recent.add(digest, index, chunk);
      }
      return true;
    });
  }

  // A whole blob, every chunk verified; what the store has lost or torn is fetched again.
  async readBlob(digest: string): Promise<Uint8Array<ArrayBuffer>> {
    const { memory } = this.#options;
    return await this.#healing(digest, async ({ byteCount, chunks }, store) => {
      const blob = allocated(byteCount);
      for (const index of chunks.keys()) {
        const chunk = await this.#readChunk(store, digest, index);
        if (!chunk) return null;
        blob.set(chunk, index * kChunkBytes);
      }
      // Downloads that only memory holds are on their way into the engine.
      if (store === memory) await memory.remove(digest);
      return blob;
    });
  }

  // A range of a blob: only the chunks around it are read.
  async readRange(
    digest: string,
    offset: number,
    byteCount: number,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const info = this.#info(digest);
    const end = offset + byteCount;
    if (end > info.byteCount) {
      throw new EngineError(
        "invalid_data",
        `Bytes ${offset} to ${end} of blob ${digest} were asked for; it has ${info.byteCount}.`,
      );
    }
    return await this.#healing(digest, async (_, store) => {
      if (this.#areVerified(store, digest, offset, end)) {
        return await store.read(digest, offset, byteCount).catch(() => null);
      }
      const bytes = new Uint8Array(byteCount);
      for (let index = Math.floor(offset / kChunkBytes); index * kChunkBytes < end; ++index) {
        const chunk = await this.#readChunk(store, digest, index);
        if (!chunk) return null;
        const at = index * kChunkBytes;
        const from = Math.max(offset, at);
        const part = chunk.subarray(from - at, Math.min(end, at + chunk.length) - at);
        bytes.set(part, from - offset);
      }
      return bytes;
    });
  }

  // The same in pieces, which end with chunks: those that were verified a moment ago as they lie in
  // memory, what is between them as it is read.
  async *readPieces(
    digest: string,
    offset: number,
    byteCount: number,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const end = offset + byteCount;
    const held = (at: number): Uint8Array<ArrayBuffer> | undefined =>
      this.#options.recent.get(digest, Math.floor(at / kChunkBytes));
    const endOf = (at: number): number => Math.min(end, at - (at % kChunkBytes) + kChunkBytes);
    for (let at = offset; at < end;) {
      const begin = at;
      const chunk = held(at);
      at = endOf(at);
      if (chunk) {
        const from = begin % kChunkBytes;
        yield chunk.subarray(from, from + at - begin);
        continue;
      }
      while (at < end && !held(at)) at = endOf(at);
      yield await this.readRange(digest, begin, at - begin);
    }
  }

  // What `read` makes of the blob; where that is null, what is held is not what was written: the
  // blob is fetched again and read once more.
  async #healing<T>(
    digest: string,
    read: (info: BlobInfo, store: BlobStore) => Promise<T | null>,
  ): Promise<T> {
    const info = this.#info(digest);
    const { cache, memory } = this.#options;
    for (const isLast of [false, true]) {
      if (!this.#has(digest)) await this.#fetchBlob(digest, () => undefined);
      const store = memory.heldBytes(digest) === info.byteCount ? memory : cache;
      const made = await read(info, store);
      if (made !== null) return made;
      if (isLast) break;
      await this.#forget(digest);
    }
    throw new EngineError("io", `This device does not keep blob ${digest} as it was written.`);
  }

  async #forget(digest: string): Promise<void> {
    this.#options.recent.drop(digest);
    this.#options.verified.forget(digest);
    await this.#options.cache.remove(digest);
    await this.#options.memory.remove(digest);
  }

  #isVerified(store: BlobStore, digest: string, index: number): boolean {
    return store === this.#options.memory || this.#options.verified.has(digest, index);
  }

  #areVerified(store: BlobStore, digest: string, offset: number, end: number): boolean {
    for (let index = Math.floor(offset / kChunkBytes); index * kChunkBytes < end; ++index) {
      if (!this.#isVerified(store, digest, index)) return false;
    }
    return true;
  }

  // Gives null where it cannot be read, or is not what was written.
  async #readChunk(
    store: BlobStore,
    digest: string,
    index: number,
  ): Promise<Uint8Array<ArrayBuffer> | null> {
    const recent = this.#options.recent.get(digest, index);
    if (recent) return recent;
    const { byteCount, chunks } = this.#info(digest);
    const at = index * kChunkBytes;
    const length = Math.min(kChunkBytes, byteCount - at);
    const chunk = await store.read(digest, at, length).catch(() => null);
    if (!chunk || this.#isVerified(store, digest, index)) return chunk;
    if ((await sha256Hex(chunk)) !== chunks[index]) return null;
    this.#options.verified.add(digest, index);
    return chunk;
  }

  async loaded(layer: number): Promise<void> {
    await this.dropCopies(this.#blobsOf(layer));
  }

  // An engine holds what it needs of these blobs: what only memory holds of them may go.
  async dropCopies(digests: readonly string[]): Promise<void> {
    for (const digest of digests) {
      this.#options.recent.drop(digest);
      await this.#options.memory.remove(digest);
    }
  }

  #info(digest: string): BlobInfo {
    const info = this.manifest.blobs.get(digest);
    if (info) return info;
    throw new EngineError("invalid_data", `Blob ${digest} is not in the manifest.`);
  }

  async #fetchBlob(
    digest: string,
    onBytes: (bytes: number) => void,
    signal: AbortSignal | null = null,
  ): Promise<void> {
    const { cache, memory, http } = this.#options;
    try {
      await http.retrying(() => this.#fetchInto(cache, digest, onBytes, signal));
    } catch (error) {
      if (!(error instanceof StoreFailed)) throw error;
      await http.retrying(() => this.#fetchInto(memory, digest, onBytes, signal))
        .catch((other: unknown) => {
          if (!(other instanceof StoreFailed) || cache === memory) throw other;
          // The server asks for less where memory is short, and asks others where a disk is full.
          throw new EngineError("io", `The cache of this device fails: ${error.why}. ` +
            `Its memory takes no more either: ${other.why}.`);
        });
    }
  }

  async #fetchInto(
    store: BlobStore,
    digest: string,
    onBytes: (bytes: number) => void,
    signal: AbortSignal | null,
  ): Promise<void> {
    const { http, fetcher, cache, verified, recent } = this.#options;
    const blob = { digest, info: this.#info(digest) };
    const onChunk = (index: number, chunk: Uint8Array<ArrayBuffer>): void => {
      if (store === cache) verified.add(digest, index);
      recent.add(digest, index, chunk);
      onBytes(chunk.length);
    };
    if (fetcher?.isAlive && store.noteHeld) {
      return await this.#fetchOnThread(fetcher, store, blob, onChunk, signal);
    }
    const writer = await store.openWriter(digest, blob.info.byteCount).catch((error: unknown) => {
      throw new StoreFailed(error); // another tab of this browser writes the same blob
    });
    try {
      if (!fetcher?.isAlive) return await fetchRest(http, blob, writer, signal, onChunk);
      http.checkStopped(signal);
      await fetcher.fetch({
        server: http.address, blob, keeps: false, offset: writer.offset,
        signal: http.endOf(signal),
        onOpen: () => undefined,
        onChunk: async (index, chunk) => {
          http.checkStopped(signal);
          await append(writer, chunk);
          onChunk(index, chunk);
        },
      });
    } finally {
      writer.close();
    }
  }

  // The thread writes to the file, too.
  async #fetchOnThread(
    fetcher: BlobFetcher,
    store: BlobStore,
    blob: NamedBlob,
    onChunk: (index: number, chunk: Uint8Array<ArrayBuffer>) => void,
    signal: AbortSignal | null,
  ): Promise<void> {
    const { http } = this.#options;
    const { digest } = blob;
    let held = store.heldBytes(digest);
    http.checkStopped(signal);
    await fetcher.fetch({
      server: http.address, blob, keeps: true, offset: held - (held % kChunkBytes),
      signal: http.endOf(signal),
      onOpen: (offset) => store.noteHeld?.(digest, (held = offset)),
      onChunk: (index, chunk) => {
        http.checkStopped(signal);
        store.noteHeld?.(digest, (held += chunk.length));
        onChunk(index, chunk);
      },
    });
  }
}

// A buffer for a whole blob. Throws EngineError where there is no room for it.
function allocated(byteCount: number): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(byteCount);
  } catch {
    throw new EngineError(
      "out_of_memory",
      `There is no room in memory for a blob of ${byteCount} bytes.`,
    );
  }
}
