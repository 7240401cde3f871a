// How much the GPU of this device gives, asked when its owner says so: the browser does not tell.
// It is kept for the next visit; what a start then offers is asked for once more before it is
// promised, so that an old answer promises nothing.
import { signal } from "@preact/signals";
import { mostOfferBytes, readGpuMemory } from "@weft/ui";
import type { GpuMemory } from "@weft/ui";
import { loadJson, save } from "../browser/storage.ts";
import { deviceMemory, isPhoneDevice } from "./device.ts";

const kKey = "weft.gpuMemory";

export type Asking =
  | { kind: "no" }
  | { kind: "asking"; givenBytes: number }
  | { kind: "failed"; sentence: string };

export const gpuMemory = signal<GpuMemory | null>(
  isPhoneDevice ? null : readGpuMemory(loadJson(kKey)));
export const asking = signal<Asking>({ kind: "no" });

// Phones end tabs that take much memory: they are not asked. Undefined on plain http and in
// browsers without WebGPU, whatever the types say.
export const mayAsk = !isPhoneDevice && (navigator.gpu as GPU | undefined) !== undefined;

// Gives null where nothing was found; `asking` says why. Never rejects.
export async function askGpu(allowsSoftware: boolean): Promise<GpuMemory | null> {
  asking.value = { kind: "asking", givenBytes: 0 };
  try {
    const { findMemory } = await import("@weft/engine/gpu/find.ts");
    const found = await findMemory(navigator.gpu, {
      sharedBytes: mostOfferBytes(deviceMemory),
      allowsSoftware,
      onBytes: (givenBytes) => (asking.value = { kind: "asking", givenBytes }),
    });
    const usable = readGpuMemory(found);
    if (!usable) throw new Error("The graphics processor gave no memory just now.");
    gpuMemory.value = usable;
    save(kKey, JSON.stringify(usable));
    asking.value = { kind: "no" };
    return usable;
  } catch (error) {
    const sentence = error instanceof Error ? error.message : String(error);
    asking.value = { kind: "failed", sentence };
    return null;
  }
}
