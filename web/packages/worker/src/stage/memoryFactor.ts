// The weight factor that a worker reports: bytes it needs for one byte of weights. The planner
// counts weights times this factor, and canonical f16 keys and values for every session; an engine
// that keeps more than canonical KV has the rest counted here, per byte of the layer's weights, so
// that a plan that fits on paper fits in the tab.
import type { StageEngine } from "@weft/engine";
import type { Init } from "@weft/wire";

import type { Manifest } from "../download/manifest.ts";

const kLeast = 0.25;
const kMost = 16; // what the orchestrator accepts
// What is assumed before there is an engine: f32 caches, and copies of one session's.
const kGuess = { kvFactor: 2, copiesKv: true };

export function memoryFactor(
  manifest: Manifest,
  init: Pick<Init, "contextLength" | "sessionCount">,
  weightFactor: number,
  engine: Pick<StageEngine, "kvFactor" | "copiesKv"> | null,
): number {
  const { kvFactor, copiesKv } = engine ?? kGuess;
  const copies = copiesKv ? kvFactor : 0;
  const extraPositions = init.contextLength * (init.sessionCount * (kvFactor - 1) + copies);
  const extra = Math.max(
    0,
    ...manifest.layers
      .filter((layer) => layer.weightBytes > 0)
      .map((layer) => (layer.kvBytesPerPosition * extraPositions) / layer.weightBytes),
  );
  return Math.min(kMost, Math.max(kLeast, weightFactor + extra));
}
