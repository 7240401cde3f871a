// What a stage host says of its engines' memory.
import { expect, it } from "vitest";

import type { Init } from "@weft/wire";

import { type Manifest, parseManifest } from "../download/manifest.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { FakeEngine } from "../test/fakes.ts";
import { init, rigPackage } from "../test/workerRig.ts";
import { StageHost } from "./stageHost.ts";
import type { MakeEngine } from "./stageHost.ts";

// The factor of a device that has the first three layers of 3,000 bytes each. Its engine takes
// 1,000 for each.
async function factorOf(manifest: Manifest): Promise<number> {
  const source = {
    layerBlobs: () => [],
    layerKvBytes: () => 0,
  } as Partial<PackageSource> as PackageSource;
  const engine = Object.assign(new FakeEngine(), { kvFactor: 1, copiesKv: false });
  const host = new StageHost(manifest, source, () => Promise.resolve(engine), () => 0);
  const { value } = init();
  const installed = await host.install({ first: 0, end: 3 }, false, value as Init,
    () => undefined);
  return installed.weightFactor;
}

it("weights that two layers share count once in the factor", async () => {
  const manifest = parseManifest(rigPackage.json);
  expect(await factorOf(manifest)).toBe(3000 / 9000);
  const layers = [...manifest.layers];
  layers[2] = { ...layers[2]!, blobs: layers[0]!.blobs };
  expect(await factorOf({ ...manifest, layers })).toBe(3000 / 6000);
});

it("both engines share the offer, and each is made when it is needed", async () => {
  const others: (() => number)[] = [];
  const makeEngine: MakeEngine = (_, otherBytes) => {
    others.push(otherBytes);
    return Promise.resolve(new FakeEngine());
  };
  const source = { layerBlobs: () => [], layerKvBytes: () => 0 } as Partial<PackageSource>;
  const manifest = parseManifest(rigPackage.json);
  const host = new StageHost(manifest, source as PackageSource, makeEngine, () => 0);
  const { value } = init();
  await host.install({ first: 0, end: 3 }, true, value as Init, () => undefined);
  expect([others.length, others[0]!(), host.usedBytes()]).toEqual([1, 0, 3000]);
  const range = { first: 1, end: 2 };
  await expect(host.installHub(range, value as Init, () => undefined)).rejects.toThrow(
    "The engine of this worker runs no hubs.",
  );
  expect([others.length, others[1]!()]).toEqual([2, 3000]);
  await host.keep([range], []);
  expect([others[1]!(), host.usedBytes()]).toEqual([1000, 1000]);
});
