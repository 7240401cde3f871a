// A thread that fetches blobs: it does the HTTP, puts chunks together, has them hashed, and writes
// them to the store's file before it gives them away without a copy. Its caller: blobThreads.ts.
//
//   caller                                        thread
//   fetch 7 ab.. keeps                       ->
//                                            <-   opened 7, 3145728 bytes are there
//                                            <-   chunk 7, number 3 [1 MiB]
//                                            <-   chunk 7, number 4 [1 MiB]    kChunksAhead at most
//   taken 7                                  ->
//                                            <-   ended 7          or: failed 7 "..."
//   cancel 7                                 ->                    ends with failed 7
import { EngineError } from "@weft/engine";
import type { EngineErrorCode } from "@weft/engine";

import { fetchWhileOpening, StoreFailed } from "./blobFetch.ts";
import type { NamedBlob } from "./blobFetch.ts";
import type { BlobStore, BlobWriter } from "./blobStore.ts";
import { HandingOver } from "./handingOver.ts";
import { kChunkBytes } from "./manifest.ts";
import { ServerHttp } from "./serverHttp.ts";
import type { Fetch, ServerAddress } from "./serverHttp.ts";

// Chunks of a blob that were given and not taken.
const kChunksAhead = 4;

export type Asked =
  | {
      readonly kind: "fetch";
      readonly id: number;
      readonly server: ServerAddress;
      readonly blob: NamedBlob;
      readonly keeps: boolean;
      readonly offset: number;
    }
  | { readonly kind: "taken"; readonly id: number }
  | { readonly kind: "cancel"; readonly id: number };

export type Told =
  | { readonly kind: "opened"; readonly id: number; readonly offset: number }
  | {
      readonly kind: "chunk";
      readonly id: number;
      readonly index: number;
      readonly bytes: Uint8Array<ArrayBuffer>;
    }
  | { readonly kind: "ended"; readonly id: number }
  | {
      readonly kind: "failed";
      readonly id: number;
      readonly code: EngineErrorCode;
      readonly message: string;
      readonly isStore: boolean; // this store cannot take the blob
    };

// This is as much of a Worker, of its own global scope and of a MessagePort as is used.
export interface Port {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown, transfer: Transferable[]): void;
}

export interface ThreadParts {
  readonly fetch: Fetch;
  // Throws where there is none.
  readonly openStore: () => Promise<BlobStore>;
}

// Answers what comes through `port`.
export function serveBlobs(port: Port, parts: ThreadParts): void {
  const underWay = new Map<number, Serving>();
  let store: Promise<BlobStore> | null = null;
  port.onmessage = ({ data }: MessageEvent<Asked>) => {
    if (data.kind === "taken") return underWay.get(data.id)?.onTaken();
    if (data.kind === "cancel") return underWay.get(data.id)?.cancel();
    if (data.keeps) store ??= parts.openStore();
    const serving = new Serving(port, data, parts.fetch, data.keeps ? store : null);
    underWay.set(data.id, serving);
    void serving.run().then(() => underWay.delete(data.id));
  };
}

class Serving {
  readonly #port: Port;
  readonly #asked: Extract<Asked, { kind: "fetch" }>;
  readonly #http: ServerHttp;
  readonly #store: Promise<BlobStore> | null;
  readonly #handing = new HandingOver(kChunksAhead);

  constructor(
    port: Port,
    asked: Extract<Asked, { kind: "fetch" }>,
    fetch: Fetch,
    store: Promise<BlobStore> | null,
  ) {
    const { origin, joinToken } = asked.server;
    this.#port = port;
    this.#asked = asked;
    this.#http = new ServerHttp(() => [origin], joinToken, fetch, new AbortController().signal);
    this.#store = store;
  }

  onTaken(): void {
    this.#handing.onTaken();
  }

  cancel(): void {
    this.#handing.cancel();
  }

  async run(): Promise<void> {
    const { id, blob, offset } = this.#asked;
    const opening = this.#openWriter();
    const giving = opening.then((writer) => {
      this.#tell({ kind: "opened", id, offset: writer.offset });
      return this.#givingTo(writer);
    });
    let fault: unknown = null;
    try {
      await fetchWhileOpening(this.#http, blob, offset, giving, this.#handing.signal);
    } catch (error) {
      fault = error;
    }
    await opening.then((writer) => writer.close(), () => undefined);
    if (fault === null) this.#tell({ kind: "ended", id });
    else this.#tell({ kind: "failed", id, ...faultOf(fault) });
  }

  async #openWriter(): Promise<BlobWriter> {
    const { blob, offset } = this.#asked;
    const append = (): Promise<void> => Promise.resolve();
    if (!this.#store) return { offset, append, close: () => undefined };
    try {
      return await (await this.#store).openWriter(blob.digest, blob.info.byteCount);
    } catch (error) {
      throw new StoreFailed(error);
    }
  }

  // Gives away what was written.
  #givingTo(writer: BlobWriter): BlobWriter {
    const { id } = this.#asked;
    let index = writer.offset / kChunkBytes;
    return {
      offset: writer.offset,
      append: async (chunk) => {
        await writer.append(chunk);
        await this.#handing.mayGive();
        // Of a larger buffer others have the rest.
        const isWhole = chunk.byteLength === chunk.buffer.byteLength;
        const bytes = isWhole ? chunk : chunk.slice();
        this.#tell({ kind: "chunk", id, index: index++, bytes }, [bytes.buffer]);
      },
      close: () => undefined,
    };
  }

  #tell(told: Told, transfer: Transferable[] = []): void {
    this.#port.postMessage(told, transfer);
  }
}

function faultOf(error: unknown): Pick<Extract<Told, { kind: "failed" }>,
  "code" | "message" | "isStore"> {
  if (error instanceof StoreFailed) {
    return { code: error.code, message: error.why, isStore: true };
  }
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof EngineError ? error.code : "unavailable";
  return { code, message, isStore: false };
}
