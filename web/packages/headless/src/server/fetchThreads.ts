// Downloads on threads of their own. Node receives and decrypts on the thread that asked, which
// here is the one that also hands weights to the GPU: a few hundred megabytes a second were all
// that it had left for the line. A fetch thread does the HTTP, gathers the body to whole chunks of
// a blob and gives each away without a copy.
//
//   caller                          thread
//   get 7 /package/blobs/ab..   ->
//                               <-  head 7 206
//                               <-  piece 7 [1 MiB]
//                               <-  piece 7 [1 MiB]      at most kPiecesAhead that nobody took
//   taken 7                     ->
//                               <-  end 7                or: failed 7 "..."
//   cancel 7                    ->                       after an abort, or when enough was read
import type { MessagePort, Worker } from "node:worker_threads";

import { HandingOver } from "@weft/worker/download/handingOver.ts";
import { kChunkBytes } from "@weft/worker/download/manifest.ts";
import type { AnswerReader } from "@weft/worker/download/body.ts";
import type { Answer, Fetch } from "@weft/worker/download/serverHttp.ts";
import type { Server } from "@weft/worker/threads/serverList.ts";

const kPiecesAhead = 2;
// On a slow line a part of a chunk is handed on after so long: a probe measures what has come.
const kGatherMs = 50;

type Asked =
  | { readonly kind: "get"; readonly id: number; readonly url: string;
      readonly headers: Record<string, string> }
  | { readonly kind: "know"; readonly servers: readonly Server[] } // and their certificates
  | { readonly kind: "taken"; readonly id: number }
  | { readonly kind: "cancel"; readonly id: number };

type Told =
  | { readonly kind: "head"; readonly id: number; readonly status: number;
      readonly statusText: string }
  | { readonly kind: "piece"; readonly id: number; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "end"; readonly id: number }
  | { readonly kind: "failed"; readonly id: number; readonly message: string };

// The thread's side: answers what comes through `port` with `fetch`. `know` is told of servers
// before they are asked for anything.
export function serveFetches(
  port: MessagePort, fetch: Fetch, know: (servers: readonly Server[]) => void,
): void {
  const underWay = new Map<number, Serving>();
  port.on("message", (asked: Asked) => {
    if (asked.kind === "get") {
      const serving = new Serving(port, asked.id);
      underWay.set(asked.id, serving);
      void serving.run(fetch, asked.url, asked.headers).then(() => underWay.delete(asked.id));
    } else if (asked.kind === "know") {
      know(asked.servers);
    } else if (asked.kind === "taken") {
      underWay.get(asked.id)?.onTaken();
    } else {
      underWay.get(asked.id)?.cancel();
    }
  });
}

// Not filled with zeros.
function roomForChunk(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.allocUnsafeSlow(kChunkBytes).buffer);
}

class Serving {
  readonly #port: MessagePort;
  readonly #id: number;
  readonly #handing = new HandingOver(kPiecesAhead);

  constructor(port: MessagePort, id: number) {
    this.#port = port;
    this.#id = id;
  }

  onTaken(): void {
    this.#handing.onTaken();
  }

  cancel(): void {
    this.#handing.cancel();
  }

  async run(fetch: Fetch, url: string, headers: Record<string, string>): Promise<void> {
    let reader: AnswerReader | null = null;
    try {
      const { status, statusText, body } =
        await fetch(url, { headers, signal: this.#handing.signal });
      reader = body!.getReader();
      this.#tell({ kind: "head", id: this.#id, status, statusText });
      await this.#giveBody(reader);
      this.#tell({ kind: "end", id: this.#id });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#tell({ kind: "failed", id: this.#id, message });
    }
    await reader?.cancel().catch(() => undefined);
  }

  async #giveBody(reader: AnswerReader): Promise<void> {
    let chunk = roomForChunk();
    let filled = 0;
    let begunAt = 0;
    const give = async (): Promise<void> => {
      await this.#handing.mayGive();
      this.#handing.signal.throwIfAborted();
      // What is short is copied: its receiver would hold a whole chunk for it.
      const bytes = filled < kChunkBytes / 2 ? chunk.slice(0, filled) : chunk.subarray(0, filled);
      this.#tell({ kind: "piece", id: this.#id, bytes }, [bytes.buffer]);
      if (bytes.buffer === chunk.buffer) chunk = roomForChunk();
      filled = 0;
    };
    for (;;) {
      const { done, value } = await reader.read();
      if (done || !value) break;
      if (filled === 0) begunAt = performance.now();
      for (let rest = value; rest.length > 0;) {
        const part = rest.subarray(0, kChunkBytes - filled);
        chunk.set(part, filled);
        filled += part.length;
        rest = rest.subarray(part.length);
        if (filled === kChunkBytes) await give();
      }
      if (filled > 0 && performance.now() - begunAt >= kGatherMs) await give();
    }
    if (filled > 0) await give();
  }

  #tell(told: Told, transfer: ArrayBuffer[] = []): void {
    this.#port.postMessage(told, transfer);
  }
}

// The caller's side: a request goes to the thread that has the fewest under way.
export class FetchThreads {
  readonly #threads: Thread[];
  readonly #without: Fetch;

  // `without`: what fetches when no thread is left.
  constructor(ports: readonly (MessagePort | Worker)[], without: Fetch) {
    this.#threads = ports.map((port) => new Thread(port));
    this.#without = without;
  }

  readonly fetch: Fetch = async (url, init) => {
    const alive = this.#threads.filter(({ isAlive }) => isAlive);
    const [first, ...others] = alive;
    if (!first) return await this.#without(url, init);
    const idlest = others.reduce((best, it) => (it.load < best.load ? it : best), first);
    return await idlest.get(url, init);
  };

  know(servers: readonly Server[]): void {
    for (const thread of this.#threads) thread.know(servers);
  }

  // The thread of the port `index` is gone: what it had under way fails.
  onGone(index: number, why: string): void {
    this.#threads[index]?.end(why);
  }
}

class Thread {
  readonly #port: MessagePort | Worker;
  readonly #calls = new Map<number, Call>();
  #lastId = 0;
  isAlive = true;

  constructor(port: MessagePort | Worker) {
    this.#port = port;
    port.on("message", (told: Told) => {
      const call = this.#calls.get(told.id);
      if (told.kind === "end" || told.kind === "failed") this.#calls.delete(told.id);
      call?.onTold(told);
    });
  }

  get load(): number {
    return this.#calls.size;
  }

  end(why: string): void {
    this.isAlive = false;
    for (const [id, call] of this.#calls) call.onTold({ kind: "failed", id, message: why });
    this.#calls.clear();
  }

  know(servers: readonly Server[]): void {
    if (this.isAlive) this.#port.postMessage({ kind: "know", servers } satisfies Asked);
  }

  get(url: string, { headers, signal }: RequestInit): Promise<Answer> {
    const id = ++this.#lastId;
    const ask = (asked: Asked): void => this.#port.postMessage(asked);
    const call = new Call({
      taken: () => ask({ kind: "taken", id }),
      cancel: () => {
        if (this.#calls.has(id)) ask({ kind: "cancel", id });
      },
    });
    this.#calls.set(id, call);
    ask({ kind: "get", id, url, headers: (headers ?? {}) as Record<string, string> });
    if (signal) call.endsWith(signal);
    return call.answer;
  }
}

interface CallEvents {
  readonly taken: () => void;
  readonly cancel: () => void;
}

// One request: settles `answer` with its head, and hands its pieces to the answer's reader.
class Call {
  readonly answer: Promise<Answer>;
  readonly #events: CallEvents;
  readonly #pieces: Uint8Array<ArrayBuffer>[] = [];
  #settle!: { resolve: (answer: Answer) => void; reject: (error: Error) => void };
  #isOver = false;
  #failure: Error | null = null;
  #wake: () => void = () => undefined;
  #forget: () => void = () => undefined; // the signal

  constructor(events: CallEvents) {
    this.#events = events;
    this.answer = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  endsWith(signal: AbortSignal): void {
    const onAbort = (): void => {
      this.#events.cancel();
      this.#fail(new Error("the request was aborted"));
    };
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener("abort", onAbort, { once: true });
    this.#forget = () => signal.removeEventListener("abort", onAbort);
  }

  onTold(told: Told): void {
    if (told.kind === "head") {
      this.#settle.resolve(this.#answerOf(told.status, told.statusText));
    } else if (told.kind === "piece") {
      this.#pieces.push(told.bytes);
    } else if (told.kind === "failed") {
      this.#fail(new Error(told.message));
    } else {
      this.#end();
    }
    this.#wake();
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#settle.reject(error); // without effect behind the head
    this.#end();
    this.#wake();
  }

  #end(): void {
    this.#isOver = true;
    this.#forget();
  }

  #answerOf(status: number, statusText: string): Answer {
    const read = (): Promise<{ done: boolean; value?: Uint8Array }> => this.#read();
    const cancel = (): Promise<void> => {
      this.#events.cancel();
      this.#end();
      return Promise.resolve();
    };
    return {
      ok: status >= 200 && status < 300,
      status,
      statusText,
      body: { getReader: () => ({ read, cancel }) },
      json: async () => {
        const pieces: Uint8Array[] = [];
        for (let at = await read(); at.value; at = await read()) pieces.push(at.value);
        return JSON.parse(Buffer.concat(pieces).toString("utf8")) as unknown;
      },
    };
  }

  async #read(): Promise<{ done: boolean; value?: Uint8Array }> {
    while (this.#pieces.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    const value = this.#pieces.shift();
    if (value) {
      this.#events.taken();
      return { done: false, value };
    }
    if (this.#failure) throw this.#failure;
    return { done: true };
  }
}
