// Stores that keep each blob in a file named by digest (opfsStore.ts in a tab, diskStore.ts of
// headless workers) share this: how much of each blob is there, and how a writer appends to it.
import type { BlobStore, BlobWriter } from "./blobStore.ts";

// A file that is open for writing.
export interface AppendedFile {
  // Rejects when the bytes did not all arrive.
  write(bytes: Uint8Array<ArrayBuffer>, at: number): Promise<void>;
  truncate(size: number): void;
  // `end`: the bytes that are in it.
  close(end: number): void;
}

export abstract class FileStore implements BlobStore {
  protected readonly held = new Map<string, number>(); // whole blobs, and verified beginnings

  abstract openWriter(digest: string, byteCount: number): Promise<BlobWriter>;
  abstract read(digest: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  abstract remove(digest: string): Promise<void>;

  get cachedBytes(): number {
    let bytes = 0;
    for (const held of this.held.values()) bytes += held;
    return bytes;
  }

  get memoryBytes(): number {
    return 0;
  }

  heldBytes(digest: string): number {
    return this.held.get(digest) ?? 0;
  }

  async clear(): Promise<void> {
    for (const digest of [...this.held.keys()]) await this.remove(digest);
  }

  // A writer behind the first `offset` bytes of the file.
  protected writerOf(digest: string, offset: number, file: AppendedFile): BlobWriter {
    this.held.set(digest, offset);
    let end = offset;
    let isOpen = true;
    const close = (): void => {
      if (!isOpen) return;
      isOpen = false;
      file.close(end);
    };
    return {
      offset,
      append: async (bytes) => {
        try {
          await file.write(bytes, end);
        } catch (error) {
          file.truncate(end); // a piece of a chunk is of no use
          close();
          throw error;
        }
        end += bytes.length;
        this.held.set(digest, end);
      },
      close,
    };
  }
}
