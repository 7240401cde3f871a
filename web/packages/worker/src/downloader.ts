// Downloads ranges of layers, reporting each layer and the progress to the orchestrator and to the
// page.
import type { LayerRange } from "@weft/engine";
import type { encodeWorkerMessage } from "@weft/wire";

import type { PackageSource } from "./packageSource.ts";
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
  async download({ first, end }: LayerRange): Promise<void> {
    const totalBytes = this.#source.missingBytes({ first, end });
    let doneBytes = 0;
    let reportedAt = this.#now();
    const onBytes = (bytes: number): void => {
      doneBytes += bytes;
      this.#board.set({
        phase: "downloading",
        message: `Downloading layers ${first} to ${end - 1}.`,
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
      for (let layer = first; layer < end; ++layer) await this.#downloadLayer(layer, onBytes);
    } finally {
      this.#isBusy = false;
      this.#board.set({ download: null });
    }
  }

  async #downloadLayer(layer: number, onBytes: (bytes: number) => void): Promise<void> {
    const byteCount = this.#source.missingBytes({ first: layer, end: layer + 1 });
    const begin = this.#now();
    await this.#source.download(layer, onBytes);
    const elapsedUs = byteCount === 0 ? 0 : Math.max(1, (this.#now() - begin) * 1000);
    this.#send({
      case: "layerDownloaded",
      value: { layer, byteCount: BigInt(byteCount), elapsedUs: BigInt(Math.round(elapsedUs)) },
    });
  }
}
