// Downloads ranges of layers, reporting each layer and the progress to the orchestrator and to the
// page.
import type { LayerRange } from "@weft/engine";
import type { encodeWorkerMessage } from "@weft/wire";

import type { PackageSource } from "../download/packageSource.ts";
import type { StatusBoard } from "./statusBoard.ts";

const kProgressMs = 200;

type WorkerKind = Parameters<typeof encodeWorkerMessage>[0];

export class Downloader {
  readonly #source: PackageSource;
  readonly #board: StatusBoard;
  readonly #now: () => number;
  readonly #send: (kind: WorkerKind) => void;
  #isBusy = false;

  constructor(
    source: PackageSource,
    board: StatusBoard,
    now: () => number,
    send: (kind: WorkerKind) => void,
  ) {
    this.#source = source;
    this.#board = board;
    this.#now = now;
    this.#send = send;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  // Fetches what is missing of the range. Throws EngineError.
  //
  // What is done is what is missing no more, whoever fetched it: another tab of this browser shares
  // the cache, and a blob may go on behind what an earlier visit left. So the last report always
  // says that all is there.
  async download(range: LayerRange): Promise<void> {
    const totalBytes = this.#source.missingBytes(range);
    let reportedAt = this.#now();
    const report = (): void => {
      const doneBytes = Math.max(0, totalBytes - this.#source.missingBytes(range));
      this.#board.set({
        phase: "downloading",
        message: "Downloading its layers.",
        download: { doneBytes, totalBytes },
        cachedBytes: this.#source.cachedBytes,
      });
      if (this.#now() - reportedAt < kProgressMs && doneBytes < totalBytes) return;
      reportedAt = this.#now();
      this.#send({
        case: "downloadProgress",
        value: { doneBytes: BigInt(doneBytes), totalBytes: BigInt(totalBytes) },
      });
    };
    this.#isBusy = totalBytes > 0;
    try {
      for (let layer = range.first; layer < range.end; ++layer) {
        await this.#downloadLayer(layer, report);
      }
      if (totalBytes > 0) report();
    } finally {
      this.#isBusy = false;
      this.#board.set({ download: null });
    }
  }

  async #downloadLayer(layer: number, onPiece: () => void): Promise<void> {
    const byteCount = this.#source.missingBytes({ first: layer, end: layer + 1 });
    const begin = this.#now();
    await this.#source.download(layer, onPiece);
    const elapsedUs = byteCount === 0 ? 0 : Math.max(1, (this.#now() - begin) * 1000);
    this.#send({
      case: "layerDownloaded",
      value: { layer, byteCount: BigInt(byteCount), elapsedUs: BigInt(Math.round(elapsedUs)) },
    });
  }
}
