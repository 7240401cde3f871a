// Chunks that were verified a moment ago, of blobs that are about to be loaded: the engine takes
// them from here, so that they are not read from the disk once more. Bounded, and held only where
// the offer has room for them beside all that is still to be loaded: what does not fit is read
// again.

// Two layers of a model of 8 billion weights in q4; where memory is short, less.
export const kMostRecentBytes = 256 << 20;
export const kFewRecentBytes = 64 << 20;

interface Expected {
  readonly byteCount: number; // of the blob
  readonly chunks: Map<number, Uint8Array<ArrayBuffer>>;
}

export class RecentChunks {
  readonly #hasRoom: (bytes: number) => boolean;
  readonly #mostBytes: number;
  readonly #blobs = new Map<string, Expected>();
  #toLoadBytes = 0; // of the expected blobs
  #bytes = 0;

  // Whether so many bytes more may be held, beside these chunks and all else that is.
  constructor(hasRoom: (bytes: number) => boolean, mostBytes = kFewRecentBytes) {
    this.#hasRoom = hasRoom;
    this.#mostBytes = mostBytes;
  }

  // Of the chunks.
  get memoryBytes(): number {
    return this.#bytes;
  }

  // From now on chunks of these blobs (digest, bytes) are kept, until they are dropped, and of no
  // others.
  expect(blobs: ReadonlyMap<string, number>): void {
    for (const digest of [...this.#blobs.keys()]) if (!blobs.has(digest)) this.drop(digest);
    for (const [digest, byteCount] of blobs) {
      if (this.#blobs.has(digest)) continue;
      this.#blobs.set(digest, { byteCount, chunks: new Map() });
      this.#toLoadBytes += byteCount;
    }
  }

  // Nobody changes the bytes any more.
  add(digest: string, index: number, bytes: Uint8Array<ArrayBuffer>): void {
    const blob = this.#blobs.get(digest);
    if (!blob || blob.chunks.has(index) || this.#bytes + bytes.length > this.#mostBytes) return;
    if (!this.#hasRoom(this.#toLoadBytes + bytes.length)) return;
    blob.chunks.set(index, bytes);
    this.#bytes += bytes.length;
  }

  get(digest: string, index: number): Uint8Array<ArrayBuffer> | undefined {
    return this.#blobs.get(digest)?.chunks.get(index);
  }

  drop(digest: string): void {
    const blob = this.#blobs.get(digest);
    if (!blob) return;
    for (const { length } of blob.chunks.values()) this.#bytes -= length;
    this.#toLoadBytes -= blob.byteCount;
    this.#blobs.delete(digest);
  }
}
