// Where downloaded blobs stay, by digest. A store holds a verified prefix of each blob, so that an
// interrupted download goes on where it ended; what it gives out is verified again by the reader.

export interface BlobWriter {
  // Bytes that are there already; the next append continues there.
  readonly offset: number;
  // One at a time. Rejects when the bytes did not all arrive; the writer is then closed. Nobody
  // changes the bytes any more.
  append(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  // REQUIRES: no append is under way.
  close(): void;
}

export interface BlobStore {
  // Bytes held of the blob.
  heldBytes(digest: string): number;
  // A writer behind what is held, cut down to whole chunks. Rejects when another tab writes the
  // blob.
  openWriter(digest: string, byteCount: number): Promise<BlobWriter>;
  // REQUIRES: offset + length <= heldBytes. Throws when they cannot be read.
  read(digest: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  remove(digest: string): Promise<void>;
  clear(): Promise<void>;
  // A thread has written to the blob's file (blobThread.ts): so many bytes are there. Absent where
  // other threads cannot.
  noteHeld?(digest: string, byteCount: number): void;
  // Bytes kept on the device for the next time; 0 for a store that is gone with the tab.
  readonly cachedBytes: number;
  // Bytes of the tab's own memory.
  readonly memoryBytes: number;
}

export class MemoryStore implements BlobStore {
  readonly #blobs = new Map<string, Uint8Array<ArrayBuffer>[]>();
  readonly #mayAdd: (bytes: number) => boolean;
  #bytes = 0;

  // `mayAdd`: whether so many bytes more fit the user's offer.
  constructor(mayAdd: (bytes: number) => boolean) {
    this.#mayAdd = mayAdd;
  }

  get cachedBytes(): number {
    return 0;
  }

  get memoryBytes(): number {
    return this.#bytes;
  }

  heldBytes(digest: string): number {
    return (this.#blobs.get(digest) ?? []).reduce((sum, part) => sum + part.length, 0);
  }

  openWriter(digest: string): Promise<BlobWriter> {
    const parts = this.#blobs.get(digest) ?? [];
    this.#blobs.set(digest, parts);
    return Promise.resolve({
      offset: this.heldBytes(digest),
      append: (bytes) => {
        if (!this.#mayAdd(bytes.length)) {
          const why = `${bytes.length} bytes more of downloads do not fit the offer`;
          return Promise.reject(new RangeError(why));
        }
        this.#bytes += bytes.length;
        parts.push(bytes.slice());
        return Promise.resolve();
      },
      close: () => undefined,
    });
  }

  read(digest: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const out = new Uint8Array(length);
    let at = 0; // of the part in the blob
    for (const part of this.#blobs.get(digest) ?? []) {
      const begin = Math.max(offset, at);
      const end = Math.min(offset + length, at + part.length);
      if (begin < end) out.set(part.subarray(begin - at, end - at), begin - offset);
      at += part.length;
    }
    return Promise.resolve(out);
  }

  remove(digest: string): Promise<void> {
    this.#bytes -= this.heldBytes(digest);
    this.#blobs.delete(digest);
    return Promise.resolve();
  }

  clear(): Promise<void> {
    this.#blobs.clear();
    this.#bytes = 0;
    return Promise.resolve();
  }
}
