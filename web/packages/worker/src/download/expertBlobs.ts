// What experts, ranges of products and hubs take of the package. These are the programs of
// their layers cut down to them (@weft/engine/program), and the blobs that these name.
import type { LayerRange } from "@weft/engine";
import { decodeProgram } from "@weft/engine/program/decode.ts";
import { hubProgram } from "@weft/engine/program/hubProgram.ts";
import type { Program } from "@weft/engine/program/ir.ts";
import { blobsOf, partPrograms } from "@weft/engine/program/shards.ts";
import type { PartProgram } from "@weft/engine/program/shards.ts";
import type { LayerExperts } from "@weft/wire";

import type { PackageSource } from "./packageSource.ts";

export class ExpertBlobs {
  readonly source: PackageSource;
  readonly #programs = new Map<number, Program>(); // of whole layers

  constructor(source: PackageSource) {
    this.source = source;
  }

  // Fetches the layer's program where it is missing. Throws EngineError.
  async programs({ layer, experts }: LayerExperts): Promise<PartProgram[]> {
    return partPrograms(await this.#whole(layer), experts);
  }

  // What a hub runs of the layer. Fetches and throws as programs() does.
  async hubProgram(layer: number): Promise<Program> {
    return hubProgram(await this.#whole(layer));
  }

  async #whole(layer: number): Promise<Program> {
    let whole = this.#programs.get(layer);
    if (!whole) {
      whole = decodeProgram(await this.source.readBlob(this.source.layerProgram(layer)));
      this.#programs.set(layer, whole);
    }
    return whole;
  }

  // Of the weights of these layers without their experts.
  async hubDigests(ranges: readonly LayerRange[]): Promise<string[]> {
    const digests = new Set<string>();
    for (const { first, end } of ranges) {
      for (let layer = first; layer < end; ++layer) {
        for (const digest of blobsOf(await this.hubProgram(layer))) digests.add(digest);
      }
    }
    return [...digests];
  }

  async digests(sets: readonly LayerExperts[]): Promise<string[]> {
    const digests = new Set<string>();
    for (const set of sets) {
      const blobs = (await this.programs(set)).flatMap(({ program }) => blobsOf(program));
      for (const digest of blobs) digests.add(digest);
    }
    return [...digests];
  }
}
