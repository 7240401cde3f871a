// The bindings of this worker: which layers their steps run, and whether they are loaded. The same
// in C++: src/worker/stage_table.h.
import type { LayerRange } from "@weft/engine";

// A worker holds the binding it serves with, one that will replace it and those that it stands by
// with. More than this nobody needs.
export const kMaxBindings = 64;

export function unpreparable(id: number): string {
  return (
    `The server asked for binding ${id} to be prepared, expected one that is newer than those ` +
    `before, and at most ${kMaxBindings} at a time.`
  );
}

export interface Binding {
  readonly stage: number;
  readonly layers: LayerRange;
  readonly isStandby: boolean; // nobody waits for it
  readonly isHub: boolean; // its layers are without their experts
  isLoaded: boolean;
  // Until then: layers before `thereEnd` are on this device, those before `next` were installed,
  // and the one at `next` has its turn.
  thereEnd: number;
  next: number;
  hasTurn: boolean;
}

// What the page shows of the bindings.
export interface Holding {
  readonly layers: LayerRange;
  readonly isStandby: boolean; // and no step has come for it
}

// The weights of a binding's layers that were installed, and of all of them.
export function installedBytes(
  layerBytes: readonly number[],
  { layers: { first, end }, next }: Binding,
): [number, number] {
  const sum = (to: number): number => layerBytes.slice(first, to).reduce((a, b) => a + b, 0);
  return [sum(next), sum(end)];
}

export class StageTable {
  readonly #bindings = new Map<number, Binding>(); // by rising id
  #newest = 0; // of this connection
  #lastRun = 0; // the binding of the last step

  // Another leader may count from a lower number: numbers rise within a connection.
  beginConnection(): void {
    this.#newest = 0;
  }

  // False, and nothing changed, unless it is newer than every one that is held or that came on this
  // connection, and there is room.
  prepare(
    id: number,
    stage: number,
    layers: LayerRange,
    isStandby: boolean,
    isHub = false,
  ): boolean {
    const newest = Math.max(this.#newest, ...this.#bindings.keys());
    if (id <= newest || this.#bindings.size >= kMaxBindings) return false;
    this.#newest = id;
    const { first } = layers;
    const loading = { isLoaded: false, thereEnd: first, next: first, hasTurn: false };
    this.#bindings.set(id, { stage, layers, isStandby, isHub, ...loading });
    return true;
  }

  setLoaded(id: number): void {
    const binding = this.#bindings.get(id);
    if (binding) binding.isLoaded = true;
  }

  // What still has to be fetched and loaded; undefined where nobody wants it any more.
  unfinished(id: number): Binding | undefined {
    const binding = this.#bindings.get(id);
    return binding?.isLoaded === false ? binding : undefined;
  }

  // Whether a stage is being loaded whose first layers are there.
  get isLoading(): boolean {
    return this.bindings().some(([, it]) => !it.isLoaded && it.thereEnd > it.layers.first);
  }

  // The binding that a step of this number and stage runs; undefined unless it is loaded.
  toRun(id: number, stage: number): Binding | undefined {
    const binding = this.#bindings.get(id);
    if (binding?.isLoaded !== true || binding.stage !== stage) return undefined;
    this.#lastRun = id;
    return binding;
  }

  // What is computed here: the layers of the last step, or those of the newest binding that is
  // loaded; a standby's only where there is nothing else.
  shown(): Holding | undefined {
    const ran = this.#bindings.get(this.#lastRun);
    if (ran) return { layers: ran.layers, isStandby: false };
    const loaded = [...this.#bindings.values()].filter(({ isLoaded }) => isLoaded);
    return loaded.findLast(({ isStandby }) => !isStandby) ?? loaded.at(-1);
  }

  // With their ids, which rise.
  bindings(): [number, Binding][] {
    return [...this.#bindings];
  }

  removeUnloaded(): void {
    for (const [id, { isLoaded }] of this.#bindings) {
      if (!isLoaded) this.#bindings.delete(id);
    }
  }

  remove(id: number): void {
    this.#bindings.delete(id);
  }

  clear(): void {
    this.#bindings.clear();
  }

  // As a table that was never used: another server counts its bindings by itself.
  reset(): void {
    this.clear();
    this.#newest = 0;
    this.#lastRun = 0;
  }

  // Forgets every other binding, and those whose layers do not all stay loaded.
  keepOnly(ids: readonly number[], keep: readonly LayerRange[]): void {
    for (const [id, { layers }] of this.#bindings) {
      const stays = keep.some(({ first, end }) => first <= layers.first && layers.end <= end);
      if (!stays || !ids.includes(id)) this.#bindings.delete(id);
    }
  }

  // Of every binding of this form.
  ranges(isHub: boolean): LayerRange[] {
    const bindings = [...this.#bindings.values()].filter((each) => each.isHub === isHub);
    return bindings.map(({ layers }) => layers);
  }
}
