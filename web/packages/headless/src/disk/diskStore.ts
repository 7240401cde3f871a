// Blobs as files of a folder, one a blob, named by digest: the cache that the native worker keeps
// too (src/package/blob_store.h), so that a machine downloads a model once.
//
// A download in progress is "<digest>.<process>.part": whole chunks that were verified, perhaps a
// torn last one. Each process writes parts of its own and gives a complete one its final name in
// one step; who finds a part whose process is gone takes it over. Nothing is flushed: what a crash
// tore is found by the reader, who verifies, as he does in a tab.
import {
  closeSync, existsSync, fstatSync, ftruncateSync, openSync, renameSync, write,
} from "node:fs";
import { mkdir, open, readdir, stat, unlink } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import type { BlobWriter } from "@weft/worker/download/blobStore.ts";
import { FileStore } from "@weft/worker/download/fileStore.ts";
import { isDigest, kChunkBytes } from "@weft/worker/download/manifest.ts";

import { isProcessAlive } from "./processes.ts";

const kMostOpenFiles = 64;
const writeAsync = promisify(write);

export class DiskStore extends FileStore {
  readonly #folder: string;
  readonly #say: (sentence: string) => void;
  readonly #parts = new Map<string, string>(); // digest -> name of the part that nobody writes
  readonly #readers = new Map<string, Promise<FileHandle>>(); // in the order of their last use
  readonly #writing = new Map<string, Promise<void>>(); // digest -> the end of its writer
  #wasFull = false;

  private constructor(folder: string, say: (sentence: string) => void) {
    super();
    this.#folder = folder;
    this.#say = say;
  }

  // `say` is told when the disk takes no more. Throws where the folder cannot be used.
  static async open(folder: string, say: (sentence: string) => void): Promise<DiskStore> {
    const store = new DiskStore(folder, say);
    await mkdir(folder, { recursive: true });
    for (const name of await readdir(folder)) await store.#find(name);
    return store;
  }

  async #find(name: string): Promise<void> {
    const [digest = "", writer = "", suffix] = name.split(".");
    if (!isDigest(digest)) return;
    const isPart = suffix === "part" && !isProcessAlive(Number(writer));
    if (name !== digest && !isPart) return;
    const { size } = await stat(join(this.#folder, name));
    if (name === digest) {
      this.held.set(digest, size);
      return;
    }
    const whole = size - (size % kChunkBytes);
    if (whole <= this.heldBytes(digest)) return;
    this.held.set(digest, whole);
    this.#parts.set(digest, name);
  }

  #path(digest: string): string {
    return join(this.#folder, digest);
  }

  // Models of one process may share blobs: who comes second waits for the first.
  async openWriter(digest: string, byteCount: number): Promise<BlobWriter> {
    for (let other; (other = this.#writing.get(digest)) !== undefined;) await other;
    let end: () => void = () => undefined;
    this.#writing.set(digest, new Promise((resolve) => (end = resolve)));
    const onEnd = (): void => {
      this.#writing.delete(digest);
      end();
    };
    // Another process may have finished it meanwhile.
    const there = await stat(this.#path(digest)).then(({ size }) => size, () => null);
    if (there === byteCount) {
      this.held.set(digest, byteCount);
      onEnd();
      return wholeBlob(byteCount);
    }
    try {
      if (there !== null) await unlink(this.#path(digest));
      return this.#openPart(digest, byteCount, onEnd);
    } catch (error) {
      onEnd();
      this.#sayFull(error);
      throw error;
    }
  }

  #openPart(digest: string, byteCount: number, onEnd: () => void): BlobWriter {
    const path = join(this.#folder, `${digest}.${process.pid}.part`);
    const left = this.#parts.get(digest);
    this.#parts.delete(digest);
    if (left !== undefined && existsSync(join(this.#folder, left))) {
      renameSync(join(this.#folder, left), path);
    }
    const file = openSync(path, existsSync(path) ? "r+" : "w");
    const { size } = fstatSync(file);
    const offset = size >= byteCount ? 0 : size - (size % kChunkBytes);
    ftruncateSync(file, offset);
    const writer = this.writerOf(digest, offset, {
      write: (bytes, at) => writeAll(file, bytes, at),
      truncate: (size) => ftruncateSync(file, size),
      close: (end) => {
        try {
          closeSync(file);
          if (end === byteCount) renameSync(path, this.#path(digest));
        } finally {
          onEnd();
        }
      },
    });
    const append = async (bytes: Uint8Array<ArrayBuffer>): Promise<void> => {
      try {
        await writer.append(bytes);
      } catch (error) {
        this.#sayFull(error);
        throw error;
      }
    };
    return { ...writer, append };
  }

  #sayFull(error: unknown): void {
    if (this.#wasFull) return;
    this.#wasFull = true;
    const why = error instanceof Error ? error.message : String(error);
    this.#say(
      `The cache in ${this.#folder} takes no more (${why}): what does not fit there is kept in ` +
        `memory until it is on the GPU, and is downloaded again the next time.`,
    );
  }

  async read(digest: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const file = await this.#reader(digest);
    const bytes = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await file.read(bytes, done, length - done, offset + done);
      if (bytesRead === 0) throw new Error(`${done} of ${length} bytes were read at ${offset}`);
      done += bytesRead;
    }
    return bytes;
  }

  #reader(digest: string): Promise<FileHandle> {
    const known = this.#readers.get(digest);
    this.#readers.delete(digest);
    const file = known ?? open(this.#path(digest), "r");
    this.#readers.set(digest, file);
    file.catch(() => this.#readers.delete(digest));
    const [oldest] = this.#readers.keys();
    if (this.#readers.size > kMostOpenFiles && oldest !== undefined) void this.#closeReader(oldest);
    return file;
  }

  // A read under way is finished first.
  async #closeReader(digest: string): Promise<void> {
    const file = this.#readers.get(digest);
    this.#readers.delete(digest);
    await file?.then((handle) => handle.close()).catch(() => undefined);
  }

  // Closes the files that it reads; they are opened again when they are needed.
  async close(): Promise<void> {
    await Promise.all([...this.#readers.keys()].map((digest) => this.#closeReader(digest)));
  }

  async remove(digest: string): Promise<void> {
    this.held.delete(digest);
    await this.#closeReader(digest);
    await unlink(this.#path(digest)).catch(() => undefined); // it is gone
  }
}

function wholeBlob(byteCount: number): BlobWriter {
  return {
    offset: byteCount,
    append: () => Promise.reject(new Error("the blob is complete")),
    close: () => undefined,
  };
}

// On a thread of Node's: the caller's own goes on meanwhile.
async function writeAll(file: number, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    const rest = bytes.length - done;
    const { bytesWritten } = await writeAsync(file, bytes, done, rest, position + done);
    done += bytesWritten;
  }
}
