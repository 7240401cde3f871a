// Experts of layers as control messages name them (ExpertSet), and as lists. The same rules as
// src/wire/expert_sets.h.
import type { ExpertSet } from "../gen/control_pb.ts";
import { WireError } from "./error.ts";

// Of an expert in a layer; expert frames have 16 bits for it.
const kMaxExperts = 65536;

export interface LayerExperts {
  readonly layer: number;
  readonly experts: readonly number[]; // rising, at least one
}

// Throws WireError for a layer that the model does not have, or that does not come after the one
// before; for no experts, more than kMaxExperts, or a last byte of 0. The bytes 0x09 0x02 are
// experts 0, 3 and 9.
export function readExpertSets(sets: readonly ExpertSet[], layerCount: number): LayerExperts[] {
  let before = -1;
  return sets.map(({ layer, experts: bits }) => {
    const name = `The set of experts of layer ${layer}`;
    if (layer >= layerCount) {
      throw new WireError(`${name} is of a model with ${layerCount} layers.`);
    }
    if (layer <= before) {
      throw new WireError(`${name} comes after that of layer ${before}, expected rising layers.`);
    }
    before = layer;
    if (bits.length === 0 || bits.length > kMaxExperts / 8 || bits.at(-1) === 0) {
      throw new WireError(
        `${name} has ${bits.length} bytes, expected 1 to ${kMaxExperts / 8} of which the last ` +
          `is not 0.`,
      );
    }
    const experts = [];
    for (let expert = 0; expert < 8 * bits.length; ++expert) {
      if ((bits[expert >> 3]! >> (expert & 7)) & 1) experts.push(expert);
    }
    return { layer, experts };
  });
}
