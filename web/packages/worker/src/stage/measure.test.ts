import type { StageEngine, StepInput } from "@weft/engine";
import { DType, probeRows } from "@weft/wire";
import { expect, test } from "vitest";

import type { Manifest } from "../download/manifest.ts";
import { kMeasureSession } from "../membership/events.ts";
import { answerProbe, measureRanges } from "./measure.ts";

const kManifest = { layers: new Array(8), hiddenColumns: 4 } as unknown as Manifest;

// What it was asked, in order: "step 1-3 at 0".
function recorder(failsAt = Infinity): { engine: StageEngine; calls: string[] } {
  const calls: string[] = [];
  const engine = {
    step(input: StepInput) {
      const { first, end } = input.layers;
      if (calls.length >= failsAt) return Promise.reject(new Error("device lost"));
      calls.push(`step ${first}-${end} at ${input.runs[0]?.firstPosition}`);
      return Promise.resolve({});
    },
    release(session: number) {
      calls.push(`release ${kMeasureSession - session}`);
    },
  };
  return { engine: engine as unknown as StageEngine, calls };
}

const kRanges = [{ first: 1, end: 3 }, { first: 3, end: 7 }];

test("ranges take turns, so that none finds its weights in a cache", async () => {
  const { engine, calls } = recorder();
  let now = 0;
  const timings = await measureRanges(engine, kRanges, kManifest, 2, () => (now += 1));
  expect(calls.filter((call) => call.startsWith("step"))).toEqual([
    "step 1-3 at 0",
    "step 3-7 at 0",
    "step 1-3 at 1",
    "step 3-7 at 1",
  ]);
  expect(timings.map(({ layers }) => layers)).toEqual(kRanges);
  expect(timings.map(({ runUs }) => runUs)).toEqual([[1000, 1000], [1000, 1000]]);
  expect(calls.slice(-2)).toEqual(["release 0", "release 1"]);
});

test("a step that fails leaves no session behind", async () => {
  const { engine, calls } = recorder(4);
  const measured = measureRanges(engine, kRanges, kManifest, 9, () => 0);
  await expect(measured).rejects.toThrow("device lost");
  expect(calls.slice(-2)).toEqual(["release 0", "release 1"]);
});

test("a probe's rows go through its layers in one step, and their bytes are hashed", async () => {
  let given = new Float32Array(0);
  const engine = {
    step(input: StepInput) {
      expect(input.layers).toEqual({ first: 2, end: 3 });
      expect(input.runs[0]).toMatchObject({ count: 3, firstPosition: 0 });
      given = new Float32Array(input.hidden).map((value) => value + 0.5);
      return Promise.resolve({ hidden: given });
    },
    release: () => undefined,
  } as unknown as StageEngine;
  const manifest = { ...kManifest, boundaryDtype: DType.f32 };
  const probe = { layers: { first: 2, end: 3 }, seed: 9n, rows: 3 };
  const { digest, samples } = await answerProbe(engine, probe, manifest);
  expect(samples).toEqual([...probeRows(9n, 3, 4)].map((value) => value + 0.5));
  expect(digest).toEqual(
    new Uint8Array(await crypto.subtle.digest("SHA-256", given)));
});
