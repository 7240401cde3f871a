// Times one-row steps over ranges of layers (dynamic-graph-partitioning 4.3.2), dummy input.
import type { LayerRange, StageEngine } from "@weft/engine";

import type { Manifest } from "../download/manifest.ts";
import { kMeasureSession } from "../membership/events.ts";
import type { Timing } from "../membership/events.ts";

// Of each range the microseconds of `runs` steps at rising positions. The ranges take turns, so
// that none finds its weights where its last run has left them in a cache. The engine has the
// layers loaded.
export async function measureRanges(
  engine: StageEngine,
  ranges: readonly LayerRange[],
  manifest: Manifest,
  runs: number,
  now: () => number,
): Promise<Timing[]> {
  const timings = ranges.map((layers) => ({ layers, runUs: [] as number[] }));
  const release = (): void => {
    ranges.forEach((_, i) => engine.release(kMeasureSession - i));
  };
  release();
  try {
    for (let position = 0; position < runs; ++position) {
      for (const [i, { layers, runUs }] of timings.entries()) {
        const begin = now();
        await stepOnce(engine, layers, manifest, kMeasureSession - i, position);
        runUs.push(Math.max(1, Math.round((now() - begin) * 1000)));
      }
    }
  } finally {
    release();
  }
  return timings;
}

async function stepOnce(
  engine: StageEngine,
  layers: LayerRange,
  manifest: Manifest,
  session: number,
  position: number,
): Promise<void> {
  const isLast = layers.end === manifest.layers.length;
  await engine.step({
    layers,
    runs: [
      {
        session,
        generation: 0,
        firstPosition: position,
        count: 1,
        output: { kind: isLast ? "argmax" : "hidden" },
      },
    ],
    tokenIds: new Int32Array(layers.first === 0 ? 1 : 0),
    hidden: new Float32Array(layers.first === 0 ? 0 : manifest.hiddenColumns).fill(0.01),
  });
}
