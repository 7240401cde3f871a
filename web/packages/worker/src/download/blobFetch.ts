// One blob on its way from the server into a store: chunks are put together, hashed beside each
// other and beside what still comes, and appended in their order.
import { EngineError } from "@weft/engine";

import type { BlobWriter } from "./blobStore.ts";
import type { Body } from "./body.ts";
import { kChunkBytes } from "./manifest.ts";
import type { BlobInfo } from "./manifest.ts";
import type { Answer, ServerHttp } from "./serverHttp.ts";
import { sha256Hex } from "./sha256.ts";

// Chunks of a blob that are hashed while the next one comes.
const kHashesAtOnce = 2;

export interface NamedBlob {
  readonly digest: string;
  readonly info: BlobInfo;
}

// Appends the rest of the blob chunk by chunk; a chunk is only kept when its hash is right.
export async function fetchRest(
  http: ServerHttp,
  blob: NamedBlob,
  writer: BlobWriter,
  signal: AbortSignal | null,
  onChunk: (index: number, chunk: Uint8Array<ArrayBuffer>) => void,
): Promise<void> {
  const asked = askFrom(http, blob, writer.offset, signal);
  await appendAnswer(http, blob, writer, await asked, signal, onChunk);
}

// The same while the writer is still being opened, which is taken to begin at `expected`: asking
// the server and opening a file both take some milliseconds. The writer stays its caller's.
export async function fetchWhileOpening(
  http: ServerHttp,
  blob: NamedBlob,
  expected: number,
  opening: Promise<BlobWriter>,
  signal: AbortSignal | null,
): Promise<void> {
  const early = askFrom(http, blob, expected, signal);
  early.catch(() => undefined); // thrown below, or of no interest
  try {
    const writer = await opening;
    if (writer.offset === expected) {
      return await appendAnswer(http, blob, writer, await early, signal, () => undefined);
    }
    await dropAnswer(early);
    return await fetchRest(http, blob, writer, signal, () => undefined);
  } catch (error) {
    await dropAnswer(early);
    throw error;
  }
}

// Gives null where nothing is missing.
async function askFrom(
  http: ServerHttp,
  { digest, info }: NamedBlob,
  offset: number,
  signal: AbortSignal | null,
): Promise<Answer | null> {
  if (offset >= info.byteCount) return null;
  const range = offset > 0 ? { Range: `bytes=${offset}-` } : {};
  return await http.get(`/package/blobs/${digest}`, range, signal);
}

async function dropAnswer(asked: Promise<Answer | null>): Promise<void> {
  try {
    await (await asked)?.body?.getReader().cancel();
  } catch {
    // There is none, or its body was being read when something failed.
  }
}

async function appendAnswer(
  http: ServerHttp,
  { digest, info: { byteCount, chunks } }: NamedBlob,
  writer: BlobWriter,
  response: Answer | null,
  signal: AbortSignal | null,
  onChunk: (index: number, chunk: Uint8Array<ArrayBuffer>) => void,
): Promise<void> {
  if (!response) return;
  let at = writer.offset;
  const appender = new Appender(
    (from, bytes) => verifyChunk(digest, from, bytes, chunks),
    async (from, bytes) => {
      http.checkStopped(signal);
      await append(writer, bytes);
      onChunk(from / kChunkBytes, bytes);
    },
  );
  const body = http.bodyOf(response, signal);
  try {
    // A server without ranges gives it whole.
    if (response.status !== 206) await skip(body, at);
    while (at < byteCount) {
      const length = Math.min(kChunkBytes, byteCount - at);
      const chunk = await body.next(length);
      if (chunk.length < length) {
        const came = at + chunk.length;
        const message = `The download of blob ${digest} ended after ${came} of ${byteCount} bytes.`;
        throw new EngineError("unavailable", message);
      }
      await appender.add(at, chunk);
      at += length;
      http.checkStopped(signal);
    }
    if ((await body.next(1)).length > 0) {
      const message = `Blob ${digest} has more than ${byteCount} bytes.`;
      throw new EngineError("invalid_data", message);
    }
  } finally {
    await body.end();
    await appender.finish(); // what came before a fault is kept
  }
}

async function skip(body: Body, byteCount: number): Promise<void> {
  for (let rest = byteCount; rest > 0;) {
    const { length } = await body.next(Math.min(rest, kChunkBytes));
    if (length === 0) return;
    rest -= length;
  }
}

// Chunks on their way into a writer: hashed beside each other and beside what still comes, appended
// in their order as soon as they are known to be right.
class Appender {
  readonly #append: (at: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>;
  readonly #verify: (at: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>;
  readonly #underWay: Promise<void>[] = []; // one after the other
  #last: Promise<void> = Promise.resolve();

  constructor(
    verify: (at: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>,
    append: (at: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>,
  ) {
    this.#verify = verify;
    this.#append = append;
  }

  // The bytes are the appender's from now on. Throws what an earlier chunk met: nothing is appended
  // behind it.
  async add(at: number, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const last = this.#appendBehind(this.#last, this.#verify(at, bytes), at, bytes);
    last.catch(() => undefined); // thrown by add() or finish()
    this.#last = last;
    this.#underWay.push(last);
    if (this.#underWay.length > kHashesAtOnce) await this.#underWay.shift();
  }

  // Both are waited for whatever becomes of either: the writer is closed behind finish(), and
  // nothing may be under way then.
  async #appendBehind(
    last: Promise<void>,
    isRight: Promise<void>,
    at: number,
    bytes: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    for (const waited of await Promise.allSettled([last, isRight])) {
      if (waited.status === "rejected") throw waited.reason;
    }
    await this.#append(at, bytes);
  }

  async finish(): Promise<void> {
    await this.#last;
  }
}

// This store cannot take the blob; another may.
export class StoreFailed extends EngineError {
  readonly why: string;

  constructor(cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super("out_of_memory", `This device keeps no more downloads: ${why}.`);
    this.why = why;
  }
}

export async function append(writer: BlobWriter, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  try {
    await writer.append(bytes);
  } catch (error) {
    throw new StoreFailed(error);
  }
}

async function verifyChunk(
  digest: string,
  at: number,
  bytes: Uint8Array<ArrayBuffer>,
  chunks: readonly string[],
): Promise<void> {
  const index = at / kChunkBytes;
  if ((await sha256Hex(bytes)) === chunks[index]) return;
  throw new EngineError(
    "invalid_data",
    `Piece ${index + 1} of ${chunks.length} of blob ${digest.slice(0, 12)}… is not what the ` +
      `package promises (its SHA-256 differs): it was refused.`,
  );
}
