// Blobs that come on threads of their own (blobThread.ts), so that the one that answers the server,
// and hands weights to the GPU, only sees verified chunks go by.
import { EngineError } from "@weft/engine";

import { StoreFailed } from "./blobFetch.ts";
import type { NamedBlob } from "./blobFetch.ts";
import type { Asked, Port, Told } from "./blobThread.ts";
import type { ServerAddress } from "./serverHttp.ts";

// Threads that had nothing to do for so long are ended.
const kIdleMs = 20_000;

export interface BlobJob {
  readonly server: ServerAddress;
  readonly blob: NamedBlob;
  // Whether the thread writes to the store that its kind of thread has.
  readonly keeps: boolean;
  // Bytes that are there already. A thread that keeps looks at the file, too.
  readonly offset: number;
  readonly signal: AbortSignal;
  readonly onOpen: (offset: number) => void;
  // In their order, one at a time; a rejection ends the job with it.
  readonly onChunk: (index: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void> | void;
}

export interface BlobFetcher {
  // False: there is no thread, nor will there be one.
  readonly isAlive: boolean;
  // Settles when the thread has closed the file. Throws EngineError, as fetchRest.
  fetch(job: BlobJob): Promise<void>;
}

export interface ThreadPort extends Port {
  terminate(): void;
}

export class BlobThreads implements BlobFetcher {
  readonly #start: (onGone: (why: string) => void) => ThreadPort;
  #threads: Thread[];
  #opening: Promise<void> = Promise.resolve(); // the last file
  #idleTimer: ReturnType<typeof setTimeout> | null = null;

  // `start` starts a thread and says when it is gone.
  constructor(count: number, start: (onGone: (why: string) => void) => ThreadPort) {
    this.#start = start;
    this.#threads = Array.from({ length: count }, () => new Thread());
  }

  get isAlive(): boolean {
    return this.#threads.some(({ isGone }) => !isGone);
  }

  // Files are opened one after the other (opfsStore.ts says why), whatever the thread.
  async fetch(job: BlobJob): Promise<void> {
    const before = this.#opening;
    let opened: () => void = () => undefined;
    this.#opening = new Promise((resolve) => (opened = resolve));
    try {
      await before;
      if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
      this.#idleTimer = null;
      await this.#idlest().run(this.#start, job, opened);
    } finally {
      opened();
      const isIdle = this.#threads.every(({ load }) => load === 0);
      if (isIdle) this.#idleTimer ??= setTimeout(() => this.#endThreads(), kIdleMs);
    }
  }

  #idlest(): Thread {
    const [first, ...others] = this.#threads.filter(({ isGone }) => !isGone);
    if (!first) throw new EngineError("unavailable", "The threads that download are gone.");
    return others.reduce((best, it) => (it.load < best.load ? it : best), first);
  }

  #endThreads(): void {
    this.#idleTimer = null;
    if (this.#threads.some(({ load }) => load > 0)) return;
    for (const thread of this.#threads) thread.end();
  }
}

// A thread that is started when it is first needed.
class Thread {
  readonly #calls = new Map<number, Call>();
  #port: ThreadPort | null = null;
  #lastId = 0;
  isGone = false;

  get load(): number {
    return this.#calls.size;
  }

  end(): void {
    this.#port?.terminate();
    this.#port = null;
  }

  async run(
    start: (onGone: (why: string) => void) => ThreadPort,
    job: BlobJob,
    onOpened: () => void,
  ): Promise<void> {
    if (job.signal.aborted) throw interrupted();
    const port = (this.#port ??= this.#started(start));
    const id = ++this.#lastId;
    const ask = (asked: Asked): void => port.postMessage(asked, []);
    const call = new Call(job, onOpened, {
      taken: () => ask({ kind: "taken", id }),
      cancel: () => ask({ kind: "cancel", id }),
    });
    this.#calls.set(id, call);
    const { server, blob, keeps, offset } = job;
    ask({ kind: "fetch", id, server, blob, keeps, offset });
    const onAbort = (): void => ask({ kind: "cancel", id });
    job.signal.addEventListener("abort", onAbort, { once: true });
    try {
      await call.ended;
    } finally {
      job.signal.removeEventListener("abort", onAbort);
      this.#calls.delete(id);
    }
  }

  #started(start: (onGone: (why: string) => void) => ThreadPort): ThreadPort {
    const port = start((why) => this.#onGone(why));
    port.onmessage = ({ data }: MessageEvent<Told>) => this.#calls.get(data.id)?.onTold(data);
    return port;
  }

  #onGone(why: string): void {
    this.isGone = true;
    this.end();
    for (const call of this.#calls.values()) call.fail(new EngineError("unavailable", why));
  }
}

interface CallEvents {
  readonly taken: () => void;
  readonly cancel: () => void;
}

// One blob that a thread fetches.
class Call {
  readonly ended: Promise<void>;
  readonly #job: BlobJob;
  readonly #onOpened: () => void;
  readonly #events: CallEvents;
  #settle!: { resolve: () => void; reject: (error: unknown) => void };
  #last: Promise<void> = Promise.resolve(); // the last chunk
  #refusal: unknown; // of a chunk

  constructor(job: BlobJob, onOpened: () => void, events: CallEvents) {
    this.#job = job;
    this.#onOpened = onOpened;
    this.#events = events;
    this.ended = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  onTold(told: Told): void {
    switch (told.kind) {
      case "opened":
        this.#onOpened();
        return this.#job.onOpen(told.offset);
      case "chunk":
        this.#last = this.#last.then(() => this.#take(told.index, told.bytes));
        return;
      case "ended":
        void this.#last.then(() => {
          if (this.#refusal === undefined) this.#settle.resolve();
          else this.#settle.reject(this.#refusal);
        });
        return;
      case "failed": {
        const { code, message, isStore } = told;
        const error = isStore ? new StoreFailed(message) : new EngineError(code, message);
        void this.#last.then(() => this.#settle.reject(this.#refusal ?? error));
      }
    }
  }

  async #take(index: number, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.#refusal !== undefined) return;
    try {
      await this.#job.onChunk(index, bytes);
      this.#events.taken();
    } catch (error) {
      this.#refusal = error;
      this.#events.cancel();
    }
  }

  // Its thread is gone.
  fail(error: EngineError): void {
    this.#settle.reject(error);
  }
}

function interrupted(): EngineError {
  return new EngineError("cancelled", "The download was interrupted.");
}
