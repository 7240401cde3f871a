import type { StageEngine, StepInput } from "@weft/engine";
import { expect, test } from "vitest";

import type { Manifest } from "../download/manifest.ts";
import { kMeasureSession } from "../membership/events.ts";
import { measureRanges } from "./measure.ts";

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
