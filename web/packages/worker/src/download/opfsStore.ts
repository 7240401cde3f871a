// Blobs in the origin private file system: one file a blob, named by digest, in one folder. Works
// in dedicated workers of secure pages only (synchronous access handles).
//
// A file's length says how much is held: only verified chunks are appended, and a writer first cuts
// the file to whole chunks. What a crash tore is found by the reader, who verifies.
import { isDigest, kChunkBytes } from "./manifest.ts";
import type { BlobWriter } from "./blobStore.ts";
import { FileStore } from "./fileStore.ts";
import { LateError, within } from "./within.ts";

const kFolder = "weft-blobs";
// Chromium sometimes never answers when a file is opened beside others (seen in one of six visits
// with four downloads beside each other). Files are opened one after the other, and one that does
// not answer is asked for again: nearly always that helps. After the last attempt it counts as one
// that cannot be kept.
const kOpenMs = 1000;
const kOpenAttempts = 3;

// As much as is used of what dedicated workers have and pages have not.
interface SyncAccess {
  getSize(): number;
  truncate(size: number): void;
  write(bytes: Uint8Array, options: { at: number }): number;
  close(): void;
}

interface WorkersHandle {
  createSyncAccessHandle(): Promise<SyncAccess>;
}

export class OpfsStore extends FileStore {
  readonly #folder: FileSystemDirectoryHandle;
  #opening: Promise<unknown> = Promise.resolve();

  private constructor(folder: FileSystemDirectoryHandle) {
    super();
    this.#folder = folder;
  }

  // Gives null where the browser has no such file system, or one whose files cannot be written (a
  // private window, WebKitGTK): found out with one file, before anybody relies on it.
  static async open(): Promise<OpfsStore | null> {
    try {
      const root = await navigator.storage.getDirectory();
      const store = new OpfsStore(await root.getDirectoryHandle(kFolder, { create: true }));
      await store.#list();
      await store.#tryAFile();
      return store;
    } catch {
      return null;
    }
  }

  // For a thread that only writes: what is held is its caller's to know.
  static async openToWrite(): Promise<OpfsStore> {
    const root = await navigator.storage.getDirectory();
    return new OpfsStore(await root.getDirectoryHandle(kFolder, { create: true }));
  }

  async #list(): Promise<void> {
    for await (const [name, handle] of this.#folder.entries()) {
      if (handle.kind !== "file" || !isDigest(name)) continue;
      this.held.set(name, (await handle.getFile()).size);
    }
  }

  // A name of its own for each try: another tab may be at it.
  async #tryAFile(): Promise<void> {
    const name = `try-${crypto.randomUUID()}`;
    try {
      const access = await within(kOpenMs, this.#openFile(name), (late) => late.close());
      access.close();
    } catch (error) {
      if (!(error instanceof LateError)) throw error; // a slow answer is none
    } finally {
      await this.#folder.removeEntry(name).catch(() => undefined);
    }
  }

  noteHeld(digest: string, byteCount: number): void {
    this.held.set(digest, byteCount);
  }

  async openWriter(digest: string, byteCount: number): Promise<BlobWriter> {
    const opened = this.#opening.then(() => this.#openPatiently(digest));
    this.#opening = opened.catch(() => undefined);
    const access = await opened;
    let offset = access.getSize();
    // Longer than the blob, or torn inside of a chunk: keep the whole chunks.
    if (offset > byteCount) offset = 0;
    if (offset < byteCount) offset -= offset % kChunkBytes;
    access.truncate(offset);
    return this.writerOf(digest, offset, {
      write: (bytes, at) => {
        const written = access.write(bytes, { at });
        if (written === bytes.length) return Promise.resolve();
        const why = `only ${written} of ${bytes.length} bytes were written`;
        return Promise.reject(new Error(why));
      },
      truncate: (size) => access.truncate(size),
      close: () => access.close(), // also writes out what is buffered
    });
  }

  async #openPatiently(digest: string): Promise<SyncAccess> {
    for (let attempt = 1; ; ++attempt) {
      try {
        return await within(kOpenMs, this.#openFile(digest), (late) => late.close());
      } catch (error) {
        if (!(error instanceof LateError) || attempt === kOpenAttempts) throw error;
      }
    }
  }

  // Throws while another tab has the file.
  async #openFile(digest: string): Promise<SyncAccess> {
    const handle = await this.#folder.getFileHandle(digest, { create: true });
    return await (handle as unknown as WorkersHandle).createSyncAccessHandle();
  }

  async read(digest: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const handle = await this.#folder.getFileHandle(digest);
    const file = await handle.getFile();
    const bytes = new Uint8Array(await file.slice(offset, offset + length).arrayBuffer());
    if (bytes.length !== length) {
      throw new Error(`${bytes.length} of ${length} bytes were read at ${offset}`);
    }
    return bytes;
  }

  async remove(digest: string): Promise<void> {
    this.held.delete(digest);
    await this.#folder.removeEntry(digest).catch(() => undefined); // another tab has it open
  }
}
