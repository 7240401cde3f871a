// Times one-row steps over ranges of layers (dynamic-graph-partitioning 4.3.2), dummy input.
import type { LayerRange, StageEngine } from "@weft/engine";
import { probeColumns, probeRows } from "@weft/wire";

import type { Manifest } from "../download/manifest.ts";
import { kMeasureSession } from "../membership/events.ts";
import type { Probe, ProbeAnswer, Timing } from "../membership/events.ts";
import { packHidden } from "./stepCodec.ts";

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

// The rows that the probe's seed makes, behind its layers: what a trusted device must have, too.
export async function answerProbe(
  engine: StageEngine,
  { layers, seed, rows }: Probe,
  { hiddenColumns, boundaryDtype }: Manifest,
): Promise<ProbeAnswer> {
  const session = kMeasureSession;
  engine.release(session);
  try {
    const { hidden } = await engine.step({
      layers,
      runs: [
        { session, generation: 0, firstPosition: 0, count: rows, output: { kind: "hidden" } },
      ],
      tokenIds: new Int32Array(0),
      hidden: probeRows(seed, rows, hiddenColumns),
    });
    const bytes = packHidden(hidden, boundaryDtype, layers).slice();
    const columns = probeColumns(hiddenColumns);
    const samples = Array.from({ length: rows }, (_, row) =>
      columns.map((column) => hidden[row * hiddenColumns + column]!)).flat();
    return { digest: new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)), samples };
  } finally {
    engine.release(session);
  }
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
