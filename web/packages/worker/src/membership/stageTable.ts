// The epochs that were prepared, loaded and committed here, and with which layers.
import type { LayerRange } from "@weft/engine";

// An orchestrator keeps two plans; of more epochs than this the oldest are forgotten.
const kMostStages = 16;

interface Stage {
  readonly stage: number;
  readonly layers: LayerRange;
  isLoaded: boolean;
  isCommitted: boolean;
}

export class StageTable {
  readonly #stages = new Map<number, Stage>(); // by epoch
  #lastCommitted = 0;

  // Replaces what was prepared under older epochs and is not loaded. The stage that was committed
  // last is never forgotten for a newer one.
  prepare(epoch: number, stage: number, layers: LayerRange): void {
    for (const [older, { isLoaded }] of this.#stages) {
      if (older < epoch && !isLoaded) this.#stages.delete(older);
    }
    this.#stages.set(epoch, { stage, layers, isLoaded: false, isCommitted: false });
    if (this.#stages.size <= kMostStages) return;
    const mayGo = [...this.#stages.keys()].filter((it) => it !== this.#lastCommitted);
    this.#stages.delete(Math.min(...mayGo));
  }

  setLoaded(epoch: number): void {
    const stage = this.#stages.get(epoch);
    if (stage) stage.isLoaded = true;
  }

  // False when the epoch was never prepared, did not load yet, or is retired.
  commit(epoch: number): boolean {
    const stage = this.#stages.get(epoch);
    if (stage?.isLoaded !== true) return false;
    stage.isCommitted = true;
    this.#lastCommitted = epoch;
    return true;
  }

  find(epoch: number): LayerRange | undefined {
    return this.#stages.get(epoch)?.layers;
  }

  // Whether the epoch was prepared and still has to be fetched and loaded.
  isUnfinished(epoch: number): boolean {
    return this.#stages.get(epoch)?.isLoaded === false;
  }

  // The layers that a step of this epoch and stage runs; undefined unless it is committed.
  layersOf(epoch: number, stage: number): LayerRange | undefined {
    const found = this.#stages.get(epoch);
    return found?.isCommitted === true && found.stage === stage ? found.layers : undefined;
  }

  // The layers of the plan that was committed last.
  active(): LayerRange | undefined {
    const found = this.#stages.get(this.#lastCommitted);
    return found?.isCommitted === true ? found.layers : undefined;
  }

  remove(epoch: number): void {
    this.#stages.delete(epoch);
  }

  clear(): void {
    this.#stages.clear();
  }

  // Forgets the stages whose layers do not stay loaded.
  keepWithin(keep: readonly LayerRange[]): void {
    for (const [epoch, { layers }] of this.#stages) {
      const stays = keep.some(({ first, end }) => first <= layers.first && layers.end <= end);
      if (!stays) this.#stages.delete(epoch);
    }
  }

  ranges(): LayerRange[] {
    return [...this.#stages.values()].map(({ layers }) => layers);
  }
}
