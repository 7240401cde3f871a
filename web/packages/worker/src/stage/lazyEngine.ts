// An engine that is made when it is first needed: a tab that only waits loads no library.
import type { LayerRange, StageEngine } from "@weft/engine";

export class LazyEngine {
  readonly #make: () => Promise<StageEngine>;
  #engine: StageEngine | null = null;
  #making: Promise<StageEngine> | null = null;

  constructor(make: () => Promise<StageEngine>) {
    this.#make = make;
  }

  // Null until it was needed.
  get made(): StageEngine | null {
    return this.#engine;
  }

  // Of weights, keys and values, and scratch.
  get heldBytes(): number {
    if (!this.#engine) return 0;
    const { weightBytes, kvBytes, scratchBytes } = this.#engine.memory();
    return weightBytes + kvBytes + scratchBytes;
  }

  // Rejects where it cannot be made; the next call tries again.
  async get(): Promise<StageEngine> {
    this.#making ??= this.#make();
    try {
      this.#engine = await this.#making;
    } catch (error) {
      this.#making = null;
      throw error;
    }
    return this.#engine;
  }

  // Makes it while layers are on their way to it. What fails is said by who needs it.
  warmUp(): void {
    this.get().catch(() => undefined);
  }

  // Unloads every layer but those of these ranges.
  async keep(ranges: readonly LayerRange[], layerCount: number): Promise<void> {
    for (let layer = 0; layer < layerCount; ++layer) {
      const isKept = ranges.some(({ first, end }) => first <= layer && layer < end);
      if (!isKept) await this.#engine?.unload({ first: layer, end: layer + 1 });
    }
  }

  async dispose(): Promise<void> {
    const engine = await this.#making?.catch(() => null);
    await engine?.dispose();
  }
}
