// Layers whose weights reach the device before somebody asks for them, beside steps. They are taken
// over when they are asked for, or dropped.
import type { LoadedLayer } from "../dispatch/loadedLayer.ts";

interface Coming {
  readonly layer: Promise<LoadedLayer>;
  isDropped: boolean;
}

export class LayersAhead {
  readonly #free: (layer: LoadedLayer) => void;
  readonly #coming = new Map<number, Coming>();

  // `free`: what becomes of a layer that nobody takes.
  constructor(free: (layer: LoadedLayer) => void) {
    this.#free = free;
  }

  // Settles when the layer is there; rejects as `load` does, and then nothing is held of it.
  async bring(index: number, load: () => Promise<LoadedLayer>): Promise<void> {
    const known = this.#coming.get(index);
    if (known) return void (await known.layer);
    const coming: Coming = { layer: load(), isDropped: false };
    this.#coming.set(index, coming);
    try {
      await coming.layer;
    } catch (error) {
      if (this.#coming.get(index) === coming) this.#coming.delete(index);
      throw error;
    }
  }

  // Gives null where the layer was not brought, or could not be.
  async take(index: number): Promise<LoadedLayer | null> {
    const coming = this.#coming.get(index);
    if (!coming) return null;
    const layer = await coming.layer.catch(() => null);
    if (coming.isDropped) return null;
    this.#coming.delete(index);
    return layer;
  }

  drop(index: number): void {
    const coming = this.#coming.get(index);
    if (!coming) return;
    this.#coming.delete(index);
    coming.isDropped = true;
    void coming.layer.then(this.#free, () => undefined);
  }

  dropAll(): void {
    for (const index of [...this.#coming.keys()]) this.drop(index);
  }
}
