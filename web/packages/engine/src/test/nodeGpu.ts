// A WebGPU device in Node through Dawn: tests only. Without a GPU it is Chromium's software driver
// (slow, subgroups of 4, no shader-f16), where that is installed.
import { setMaxListeners } from "node:events";
import { existsSync } from "node:fs";

import { openGpu } from "../gpu/open.ts";
import type { Gpu } from "../gpu/open.ts";

const kSoftwareDriver = "/usr/lib/chromium/vk_swiftshader_icd.json";

// Kernels read nothing of a workgroup's memory that they did not write. That Dawn clears it all the
// same makes a software adapter's pipelines several times as slow, to compile and to run. Nor do
// they index what is not there: Dawn's clamps of every index, which would hide that, are a third of
// such an adapter's work. Browsers have both, in tests/e2e.
const kFlags = [
  "backend=vulkan",
  "enable-dawn-features=disable_workgroup_init,disable_robustness",
];

// Dawn asks for results in every turn of the event loop, which takes a core away from the software
// adapter: a turn of a millisecond is enough. The timer is Node's own, since a test that shares the
// process may have put setImmediate in its place.
const nodeSetTimeout = globalThis.setTimeout;
function slowTurns(): void {
  const later = (callback: () => void): NodeJS.Timeout => nodeSetTimeout(callback, 1);
  Reflect.set(globalThis, "setImmediate", later);
}

// Dawn dies when its instance is collected before its devices.
const instances: GPU[] = [];

// What the files that one worker runs have in common. Compiling kernels is most of what tests cost
// on a software adapter: with one device they are compiled once for all of these files.
const kShared = Symbol.for("weft: the device of all tests");
type Holder = Partial<Record<typeof kShared, Promise<Gpu | null>>>;

// The device that all tests of a worker share; null where there is none. Engines on it are freed
// with freeBuffers(), not with dispose(). A test that loses or breaks its device opens its own.
export function sharedNodeGpu(): Promise<Gpu | null> {
  const holder = globalThis as Holder;
  setMaxListeners(0); // every engine listens to its device
  holder[kShared] ??= openNodeGpu();
  return holder[kShared];
}

// A device of its own; null where there is none.
export async function openNodeGpu(): Promise<Gpu | null> {
  if (existsSync(kSoftwareDriver)) process.env["VK_ICD_FILENAMES"] ??= kSoftwareDriver;
  try {
    const { create } = await import("webgpu");
    slowTurns();
    const gpu = create(kFlags);
    instances.push(gpu);
    return await openGpu(gpu);
  } catch {
    return null;
  }
}
