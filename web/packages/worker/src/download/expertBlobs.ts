// What experts and ranges of an output head take of the package: the programs of their layers cut
// down to them (@weft/engine/program/shards.ts), and the blobs that these name.
import { decodeProgram } from "@weft/engine/program/decode.ts";
import type { Program } from "@weft/engine/program/ir.ts";
import { blobsOf, partPrograms } from "@weft/engine/program/shards.ts";
import type { LayerExperts } from "@weft/wire";

import type { PackageSource } from "./packageSource.ts";

export class ExpertBlobs {
  readonly source: PackageSource;
  readonly #programs = new Map<number, Program>(); // of whole layers

  constructor(source: PackageSource) {
    this.source = source;
  }

  // Fetches the layer's program where it is missing. Throws EngineError.
  async programs({ layer, experts }: LayerExperts): Promise<Program[]> {
    let whole = this.#programs.get(layer);
    if (!whole) {
      whole = decodeProgram(await this.source.readBlob(this.source.layerProgram(layer)));
      this.#programs.set(layer, whole);
    }
    return partPrograms(whole, experts);
  }

  async digests(sets: readonly LayerExperts[]): Promise<string[]> {
    const digests = new Set<string>();
    for (const set of sets) {
      const blobs = (await this.programs(set)).flatMap(blobsOf);
      for (const digest of blobs) digests.add(digest);
    }
    return [...digests];
  }
}
