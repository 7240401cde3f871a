// Cosines and sines of the rotations, computed here for the positions of a step: WGSL's own are
// only good to 2^-11. One table of frequencies for all layers that share it, as most do.
export class Ropes {
  readonly #firstOf = new Map<string, number>();
  readonly #tables: Float32Array[] = [];
  #columns = 0;

  // Pairs of cosine and sine of a row.
  get columns(): number {
    return this.#columns;
  }

  get firstOf(): ReadonlyMap<string, number> {
    return this.#firstOf;
  }

  // Returns the key of these frequencies.
  add(frequencies: Float32Array): string {
    const key = frequencies.join(" ");
    if (!this.#firstOf.has(key)) {
      this.#firstOf.set(key, this.#columns);
      this.#tables.push(frequencies);
      this.#columns += frequencies.length;
    }
    return key;
  }

  // Writes the row of a position: the angle is rounded to f32, as the models' own code does.
  write(position: number, out: Float32Array, at: number): void {
    let next = at;
    for (const table of this.#tables) {
      for (const frequency of table) {
        const angle = Math.fround(position * frequency);
        out[next++] = Math.cos(angle);
        out[next++] = Math.sin(angle);
      }
    }
  }
}
