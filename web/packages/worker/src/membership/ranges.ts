// Ranges of layers as a server names them.
import type { LayerRange } from "@weft/engine";
import { kMaxProbeRows, kMaxProbes } from "@weft/wire";
import type { MeasureSpeed } from "@weft/wire";

import type { Probe } from "./events.ts";
import type { Fetch } from "./fetchQueue.ts";
import { kMaxMeasureRuns } from "./rules.ts";

type ProbeMessage = MeasureSpeed["probes"][number];

// Throws where one is not of layers between embedding and head, or asks for too much.
function checkedProbes(probes: readonly ProbeMessage[], layerCount: number): Probe[] {
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

// Layers that are measured, and those that are loaded for rows of a check alone. Throws where
// something of it is not of this model.
export function measurementOf(message: MeasureSpeed, layerCount: number): Fetch {
  const timed = message.ranges.map((range) => checkedRange(range, layerCount));
  const runs = Math.min(Math.max(message.runs, 1), kMaxMeasureRuns);
  const probes = checkedProbes(message.probes, layerCount);
  const rest = probes.map(({ layers }) => layers)
    .filter(({ first, end }) => !timed.some((it) => it.first <= first && end <= it.end));
  return { purpose: { kind: "measurement", timed, runs, probes }, ranges: [...timed, ...rest] };
}

// Throws where the range is not one of a model with so many layers.
export function checkedRange(range: LayerRange | undefined, layerCount: number): LayerRange {
  const { first, end } = range ?? { first: 0, end: 0 };
  if (first < end && end <= layerCount) return { first, end };
  throw new Error(`it named layers ${first} to ${end} of a model with ${layerCount}.`);
}
