// Carries out one fetch: what is missing of some layers comes to this device, verified, with its
// progress.
import type { LayerRange } from "@weft/engine";

import type { PackageSource } from "./packageSource.ts";

const kProgressMs = 200;

export interface DownloadEvents {
  // Called at most every 200 ms, and at the end; never where nothing is missing.
  readonly onProgress: (doneBytes: number, totalBytes: number) => void;
  // `byteCount` bytes came, in `elapsedUs`; 0 and 0: the layer was there.
  readonly onLayer: (layer: number, byteCount: number, elapsedUs: number) => void;
}

export class Downloader {
  readonly #source: PackageSource;
  readonly #now: () => number; // ms
  readonly #events: DownloadEvents;

  constructor(source: PackageSource, now: () => number, events: DownloadEvents) {
    this.#source = source;
    this.#now = now;
    this.#events = events;
  }

  // Throws EngineError; of the code `cancelled` after `signal`, at the next piece. What was
  // verified by then is kept, and the next download goes on behind it.
  //
  // What is done is what is missing no more, whoever fetched it: another tab of this browser shares
  // the cache, and a blob may go on behind what an earlier visit left. So the last report always
  // says that all is there.
  async download(range: LayerRange, signal: AbortSignal): Promise<void> {
    await this.#reporting(() => this.#source.missingBytes(range), async (report) => {
      for (let layer = range.first; layer < range.end; ++layer) {
        await this.#downloadLayer(layer, report, signal);
      }
    });
  }

  // The same for some blobs, which nobody is told of as layers.
  async downloadBlobs(digests: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#reporting(() => this.#source.missingOf(digests), async (report) => {
      await this.#source.downloadBlobs(digests, report, signal);
    });
  }

  async #reporting(
    missingBytes: () => number,
    download: (report: () => void) => Promise<void>,
  ): Promise<void> {
    const totalBytes = missingBytes();
    let reportedAt = -Infinity;
    const report = (): void => {
      const doneBytes = Math.max(0, totalBytes - missingBytes());
      if (this.#now() - reportedAt < kProgressMs && doneBytes < totalBytes) return;
      reportedAt = this.#now();
      this.#events.onProgress(doneBytes, totalBytes);
    };
    await download(report);
    if (totalBytes > 0) report();
  }

  async #downloadLayer(layer: number, onPiece: () => void, signal: AbortSignal): Promise<void> {
    const byteCount = this.#source.missingBytes({ first: layer, end: layer + 1 });
    const begin = this.#now();
    await this.#source.download(layer, onPiece, signal);
    const elapsedUs = byteCount === 0 ? 0 : Math.max(1, (this.#now() - begin) * 1000);
    this.#events.onLayer(layer, byteCount, Math.round(elapsedUs));
  }
}
