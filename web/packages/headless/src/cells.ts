// A device beside a server that may have several models: a WorkerHost for each model that is
// loaded, with a socket of its own, and the device's memory between them. Beside a server of one
// model it is the one WorkerHost that it always was. The same in C++: src/apps/remote_cells.h.
import type { WorkerStatus } from "@weft/worker/threads/messages.ts";

import type { Cell } from "./server/cellList.ts";
import { offerFor } from "./server/cellList.ts";

// A worker of one model, or of the one that the server has.
export interface Helped {
  // Says goodbye; settles when everything is freed.
  stop(): Promise<void>;
}

// `cell`: null where the server has one model. `tell`: every status from now on.
export type StartHelping = (
  cell: Cell | null,
  offerBytes: number,
  tell: (status: WorkerStatus) => void,
) => Helped;

export interface CellsEvents {
  readonly onStatus: (model: string, status: WorkerStatus) => void; // "": of the only model
  readonly onGone: (model: string) => void; // the model was unloaded
  readonly onRefused: () => void; // no attempt will help
}

interface Place {
  readonly cell: Cell;
  offerBytes: number;
  helped: Helped | null; // null: the others leave it no memory
}

export class Cells {
  readonly #memoryBytes: number;
  readonly #start: StartHelping;
  readonly #events: CellsEvents;
  readonly #places = new Map<number, Place>();
  readonly #ends = new Set<Promise<void>>();
  #single: Helped | null = null;
  #isLeaving = false;

  constructor(memoryBytes: number, start: StartHelping, events: CellsEvents) {
    this.#memoryBytes = memoryBytes;
    this.#start = start;
    this.#events = events;
  }

  // null: the server has one model, or does not answer. Sockets of models that were there go on or
  // come again by themselves.
  onList(cells: readonly Cell[] | null): void {
    if (this.#isLeaving) return;
    if (cells === null) {
      if (this.#places.size === 0) this.#single ??= this.#helped(null, this.#memoryBytes);
      return;
    }
    this.#drop(this.#single, "");
    this.#single = null;
    for (const [number, { cell, helped }] of this.#places) {
      if (cells.some(({ cell }) => cell === number)) continue;
      this.#places.delete(number);
      this.#drop(helped, cell.model);
    }
    for (const cell of cells) {
      if (this.#places.has(cell.cell)) continue;
      this.#places.set(cell.cell, { cell, offerBytes: 0, helped: null });
    }
    this.#helpMore();
  }

  // Settles when all have said goodbye, and what they held is freed.
  async leave(): Promise<void> {
    this.#isLeaving = true;
    this.#drop(this.#single, "");
    for (const { cell, helped } of this.#places.values()) this.#drop(helped, cell.model);
    this.#places.clear();
    await Promise.all(this.#ends);
  }

  // Those that were loaded first come first. A model is offered what it needs, so that the next one
  // finds the rest.
  #helpMore(): void {
    const places = [...this.#places.values()].sort((a, b) => a.cell.cell - b.cell.cell);
    let leftBytes = this.#memoryBytes;
    for (const { offerBytes } of places) leftBytes -= Math.min(leftBytes, offerBytes);
    for (const place of places) {
      const offerBytes = offerFor(place.cell.needBytes, leftBytes);
      if (place.helped || offerBytes === 0) continue;
      place.offerBytes = offerBytes;
      leftBytes -= offerBytes;
      place.helped = this.#helped(place.cell, offerBytes);
    }
  }

  #helped(cell: Cell | null, offerBytes: number): Helped {
    return this.#start(cell, offerBytes, (status) => {
      this.#events.onStatus(cell?.model ?? "", status);
      if (status.phase === "refused" && !this.#isLeaving) this.#events.onRefused();
    });
  }

  #drop(helped: Helped | null, model: string): void {
    if (!helped) return;
    const end = helped.stop().then(() => {
      this.#ends.delete(end);
      if (!this.#isLeaving) this.#events.onGone(model); // else it stays as it was shown last
    });
    this.#ends.add(end);
  }
}
