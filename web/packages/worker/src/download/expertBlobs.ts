// What experts take of the package: the programs of their layers cut down to them
// (@weft/engine/program/shards.ts), and the blobs that these name.
import { decodeProgram } from "@weft/engine/program/decode.ts";
import type { Program } from "@weft/engine/program/ir.ts";
import { blobsOf, expertProgram } from "@weft/engine/program/shards.ts";
import type { LayerExperts } from "@weft/wire";

import type { PackageSource } from "./packageSource.ts";

export class ExpertBlobs {
  readonly source: PackageSource;
  readonly #programs = new Map<number, Program>(); // of whole layers

  constructor(source: PackageSource) {
    this.source = source;
  }

  // Fetches the layer's program where it is missing. Throws EngineError.
  async program({ layer, experts }: LayerExperts): Promise<Program> {
    let whole = this.#programs.get(layer);
    if (!whole) {
      whole = decodeProgram(await this.source.readBlob(this.source.layerProgram(layer)));
      this.#programs.set(layer, whole);
    }
    return expertProgram(whole, experts);
  }

  async digests(sets: readonly LayerExperts[]): Promise<string[]> {
    const digests = new Set<string>();
    for (const set of sets) {
      for (const digest of blobsOf(await this.program(set))) digests.add(digest);
    }
    return [...digests];
  }
}
