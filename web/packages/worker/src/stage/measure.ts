// Times one-row steps over a range of layers (dynamic-graph-partitioning 4.3.2), dummy input.
import type { LayerRange, StageEngine } from "@weft/engine";

import type { Manifest } from "../download/manifest.ts";
import { kMeasureSession } from "../membership/events.ts";

// Microseconds of each of `runs` steps at rising positions. The engine has the layers loaded.
export async function measureRange(
  engine: StageEngine,
  layers: LayerRange,
  manifest: Manifest,
  runs: number,
  now: () => number,
): Promise<number[]> {
  engine.release(kMeasureSession);
  const isLast = layers.end === manifest.layers.length;
  const times: number[] = [];
  for (let position = 0; position < runs; ++position) {
    const begin = now();
    await engine.step({
      layers,
      runs: [
        {
          session: kMeasureSession,
          generation: 0,
          firstPosition: position,
          count: 1,
          output: { kind: isLast ? "argmax" : "hidden" },
        },
      ],
      tokenIds: new Int32Array(layers.first === 0 ? 1 : 0),
      hidden: new Float32Array(layers.first === 0 ? 0 : manifest.hiddenColumns).fill(0.01),
    });
    times.push(Math.max(1, Math.round((now() - begin) * 1000)));
  }
  engine.release(kMeasureSession);
  return times;
}
