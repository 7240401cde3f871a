// Ranges of layers as a server names them.
import type { LayerRange } from "@weft/engine";
import { kMaxProbeRows, kMaxProbes } from "@weft/wire";
import type { MeasureSpeed } from "@weft/wire";

import type { Probe } from "./events.ts";

type ProbeMessage = MeasureSpeed["probes"][number];

// Throws where one is not of layers between embedding and head, or asks for too much.
export function checkedProbes(probes: readonly ProbeMessage[], layerCount: number): Probe[] {
  if (probes.length > kMaxProbes) {
    throw new Error(`it sent ${probes.length} probes, expected at most ${kMaxProbes}.`);
  }
  return probes.map(({ layers, seed, rows }) => {
    const range = checkedRange(layers, layerCount);
    if (range.first > 0 && range.end < layerCount && rows >= 1 && rows <= kMaxProbeRows) {
      return { layers: range, seed, rows };
    }
    throw new Error(
      `it asked for ${rows} rows behind layers ${range.first} to ${range.end}, expected 1 to ` +
        `${kMaxProbeRows} behind layers between embedding and head.`,
    );
  });
}

// Throws where the range is not one of a model with so many layers.
export function checkedRange(range: LayerRange | undefined, layerCount: number): LayerRange {
  const { first, end } = range ?? { first: 0, end: 0 };
  if (first < end && end <= layerCount) return { first, end };
  throw new Error(`it named layers ${first} to ${end} of a model with ${layerCount}.`);
}
