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
  async download(ranges: readonly LayerRange[], signal: AbortSignal): Promise<void> {
    const layers = ranges.flatMap(({ first, end }) =>
      Array.from({ length: end - first }, (_, index) => first + index));
    const byteCounts = this.#layerBytes(layers);
    let begin = this.#now(); // of the layer that is complete next
    const onLayer = (layer: number): void => {
      const byteCount = byteCounts.get(layer)!;
      const end = this.#now();
      const elapsedUs = byteCount === 0 ? 0 : Math.max(1, Math.round((end - begin) * 1000));
      begin = end;
      this.#events.onLayer(layer, byteCount, elapsedUs);
    };
    await this.#reporting(() => this.#source.missingBytes(layers), async (onBytes) => {
      await this.#source.download(layers, onBytes, signal, onLayer);
    });
  }

  // The same for some blobs, which nobody is told of as layers.
  async downloadBlobs(digests: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#reporting(() => this.#source.missingOf(digests), async (onBytes) => {
      await this.#source.downloadBlobs(digests, onBytes, signal);
    });
  }

  async #reporting(
    missingBytes: () => number,
    download: (onBytes: () => void) => Promise<void>,
  ): Promise<void> {
    const totalBytes = missingBytes();
    let reportedAt = -Infinity;
    const report = (): void => {
      reportedAt = this.#now();
      const doneBytes = totalBytes - missingBytes();
      this.#events.onProgress(Math.max(0, doneBytes), totalBytes);
    };
    await download(() => {
      if (this.#now() - reportedAt >= kProgressMs) report();
    });
    if (totalBytes > 0) report();
  }

  // What each of them misses now, beside those before it.
  #layerBytes(layers: readonly number[]): ReadonlyMap<number, number> {
    let before = 0;
    return new Map(layers.map((layer, index) => {
      const all = this.#source.missingBytes(layers.slice(0, index + 1));
      const own = all - before;
      before = all;
      return [layer, own];
    }));
  }
}
