// What a GPU has to lend, found out by taking it (probe.ts): WebGPU tells nobody. A card with
// memory of its own is asked until it refuses; a GPU that shares the system's is not asked for more
// than the caller says, because the system would take it from other programs.
import { EngineError } from "../base/error.ts";
import { openGpu } from "./open.ts";
import { probeMemory } from "./probe.ts";
import type { Probed } from "./probe.ts";

// No card has more, and an answer that never ends would be none.
const kMostBytes = 128 * 2 ** 30;
// Memory of the system that a driver gives in place of a card's is 10 to 50 times as slow.
const kSlowFactor = 8;
// A GPU process that ended with its device is there again after so long.
const kAgainMs = 500;
const kAgainAttempts = 10;

export interface FoundMemory {
  readonly bytes: number;
  readonly isOwn: boolean; // of a card, not of the system
}

export interface FindOptions {
  // The most that is taken where the GPU shares the system's memory.
  readonly sharedBytes: number;
  readonly allowsSoftware: boolean;
  readonly onBytes: (bytes: number) => void; // what was given so far
}

// Whether its memory is a card's. AMD's names do not tell its cards from its processors, whose
// drivers give at most half of the system's memory.
export function hasOwnMemory({ vendor, architecture }: Partial<GPUAdapterInfo>): boolean {
  if (vendor === "nvidia" || vendor === "amd") return true;
  return vendor === "intel" && /hpg?$/.test(architecture ?? "");
}

// Throws EngineError (unavailable) where no GPU is, or none that would compute.
export async function findMemory(
  gpu: GPU | undefined,
  { sharedBytes, allowsSoftware, onBytes }: FindOptions,
): Promise<FoundMemory> {
  const { device, isHardware, info } = await openGpu(gpu);
  try {
    if (!isHardware && !allowsSoftware) {
      throw new EngineError(
        "unavailable",
        "There is no graphics processor here, only a program that does its work slowly.",
      );
    }
    const isOwn = isHardware && hasOwnMemory(info);
    const wanted = isOwn ? kMostBytes : sharedBytes;
    const slowFactor = isOwn ? kSlowFactor : Infinity;
    const { bytes } = await probeMemory(device, wanted, { slowFactor, onBytes });
    return { bytes, isOwn };
  } finally {
    device.destroy();
  }
}

// Bytes of `wantedBytes` that the GPU gives, on a device of its own that is closed again. One that
// is lost because it was asked for too much has given what it gave, and is waited for.
export async function probeWebGpu(
  gpu: GPU | undefined,
  wantedBytes: number,
  sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms)),
): Promise<number> {
  const { device } = await openGpu(gpu);
  const probed: Probed = await probeMemory(device, wantedBytes);
  device.destroy();
  for (let attempt = 0; probed.isLost && attempt < kAgainAttempts; ++attempt) {
    await sleep(kAgainMs);
    const again = await openGpu(gpu).catch(() => null);
    again?.device.destroy();
    if (again) break;
  }
  return probed.bytes;
}
