// A WebGPU device in Node through Dawn: tests only. Without a GPU it is Chromium's software driver
// (slow, subgroups of 4, no shader-f16), where that is installed.
import { existsSync } from "node:fs";

import { openGpu } from "../gpu/open.ts";
import type { Gpu } from "../gpu/open.ts";

const kSoftwareDriver = "/usr/lib/chromium/vk_swiftshader_icd.json";

// Dawn dies when its instance is collected before its devices.
const instances: GPU[] = [];

// null where there is none.
export async function openNodeGpu(): Promise<Gpu | null> {
  if (existsSync(kSoftwareDriver)) process.env["VK_ICD_FILENAMES"] ??= kSoftwareDriver;
  try {
    const { create } = await import("webgpu");
    const gpu = create(["backend=vulkan"]);
    instances.push(gpu);
    return await openGpu(gpu);
  } catch {
    return null;
  }
}
