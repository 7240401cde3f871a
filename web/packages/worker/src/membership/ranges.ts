// Ranges of layers as a server names them.
import type { LayerRange } from "@weft/engine";

// Throws where the range is not one of a model with so many layers.
export function checkedRange(range: LayerRange | undefined, layerCount: number): LayerRange {
  const { first, end } = range ?? { first: 0, end: 0 };
  if (first < end && end <= layerCount) return { first, end };
  throw new Error(`it named layers ${first} to ${end} of a model with ${layerCount}.`);
}
