// Finding an adapter and opening its device, with the limits that the engine makes use of. The same
// code in a dedicated Worker and under Node (npm `webgpu`): the caller hands in navigator.gpu.
import { EngineError } from "../base/error.ts";
import { hasIntegerDots } from "./forms.ts";

const kAdapterPauseMs = 100;

// What kernels need beyond WebGPU's guaranteed minimum is nothing; these are only used when there.
export interface GpuLimits {
  readonly bufferBytes: number;
  readonly bindingBytes: number; // of one storage buffer binding
  readonly workgroupBytes: number; // of workgroup memory
  readonly workgroupThreads: number;
}

export interface Gpu {
  readonly device: GPUDevice;
  readonly limits: GpuLimits;
  readonly hasSubgroups: boolean; // of at least 32 lanes, always
  readonly hasIntegerDots: boolean; // dot4I8Packed and dot4U8Packed
  readonly hasF16: boolean; // shader-f16
  readonly hasMatrixUnits: boolean; // that multiply bytes, as matmul_units.wgsl wants them
  readonly hasTimestamps: boolean;
  readonly description: string; // "nvidia hopper"
  readonly identity: string; // all that the adapter says of itself and its driver
  readonly isHardware: boolean;
  readonly info: Partial<GPUAdapterInfo>; // what the adapter says of itself
}

// Asks twice: the first request after the GPU process started may find none.
export async function findGpuAdapter(gpu: GPU | undefined): Promise<GPUAdapter | null> {
  if (!gpu) return null;
  for (const last of [false, true]) {
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (adapter || last) return adapter;
    await new Promise((resolve) => setTimeout(resolve, kAdapterPauseMs));
  }
  return null;
}

// What an adapter says of itself; older Safaris leave it out.
function infoOf(adapter: GPUAdapter): Partial<GPUAdapterInfo> {
  return (adapter.info) ?? {};
}

// Kernels sum over 32 lanes: narrower subgroups, or those whose width a driver may choose, are of
// no use to them.
function hasWideSubgroups(adapter: GPUAdapter): boolean {
  return adapter.features.has("subgroups") && (infoOf(adapter).subgroupMinSize ?? 0) >= 32;
}

// Still an experiment of Dawn's, which neither types nor stable browsers have.
const kUnits = "chromium-experimental-subgroup-matrix" as GPUFeatureName;

// Of workgroup memory, that kernels take where it is there.
export const kRoomyBytes = 32_768;
// What matmul_whole_units.wgsl takes: of workgroup memory, and threads.
const kUnitsBytes = 46_080;
const kUnitsThreads = 512;

// Of a workgroup: what kernels take where it is there, and what WebGPU promises.
export const kWideThreads = 512;
const kPromisedThreads = 256;

function workgroupThreadsOf({ limits }: GPUAdapter): number {
  const { maxComputeInvocationsPerWorkgroup, maxComputeWorkgroupSizeX } = limits;
  const most = Math.min(maxComputeInvocationsPerWorkgroup, maxComputeWorkgroupSizeX);
  return most >= kWideThreads ? kWideThreads : kPromisedThreads;
}

interface UnitsInfo extends Partial<GPUAdapterInfo> {
  readonly subgroupMatrixConfigs?: Iterable<{
    readonly componentType: string;
    readonly resultComponentType: string;
    readonly M: number;
    readonly N: number;
    readonly K: number;
  }>;
}

// Whether 16 x 32 signed bytes times 32 x 16 make 16 x 16 whole numbers, by 32 lanes.
function hasMatrixUnits(adapter: GPUAdapter): boolean {
  const info = infoOf(adapter) as UnitsInfo;
  const is32 = info.subgroupMinSize === 32 && info.subgroupMaxSize === 32;
  const { limits } = adapter;
  const isThere = adapter.features.has(kUnits) &&
    limits.maxComputeWorkgroupStorageSize >= kUnitsBytes &&
    limits.maxComputeInvocationsPerWorkgroup >= kUnitsThreads &&
    limits.maxComputeWorkgroupSizeX >= kUnitsThreads;
  return is32 && isThere && [...(info.subgroupMatrixConfigs ?? [])].some(
    ({ componentType, resultComponentType, M, N, K }) =>
      componentType === "i8" && resultComponentType === "i32" && M === 16 && N === 16 && K === 32,
  );
}

function usedFeatures(adapter: GPUAdapter): GPUFeatureName[] {
  const wanted: GPUFeatureName[] = ["shader-f16", "timestamp-query"];
  const there = wanted.filter((feature) => adapter.features.has(feature));
  if (hasMatrixUnits(adapter)) there.push(kUnits);
  return hasWideSubgroups(adapter) ? ["subgroups", ...there] : there;
}

// The field `driver` is Dawn's own; browsers leave out most of these.
function identityOf(adapter: GPUAdapter): string {
  const info = infoOf(adapter);
  const { vendor, architecture, device, description, subgroupMinSize, subgroupMaxSize } = info;
  const { driver } = info as { driver?: string };
  return [vendor, architecture, device, description, driver, subgroupMinSize, subgroupMaxSize]
    .map((value) => String(value ?? ""))
    .join("|");
}

// Throws EngineError (unavailable) where there is no adapter or it gives no device.
export async function openGpu(gpu: GPU | undefined): Promise<Gpu> {
  const adapter = await findGpuAdapter(gpu);
  if (!adapter) throw new EngineError("unavailable", "There is no WebGPU adapter here.");
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  const info = infoOf(adapter);
  // Offsets inside of a binding are 32-bit numbers of words at most.
  const bindingBytes = Math.min(maxStorageBufferBindingSize, maxBufferSize, 2 ** 32 - 4);
  try {
    const features = usedFeatures(adapter);
    const usedBytes = features.includes(kUnits) ? kUnitsBytes : kRoomyBytes;
    const workgroupBytes = Math.min(adapter.limits.maxComputeWorkgroupStorageSize, usedBytes);
    const workgroupThreads = workgroupThreadsOf(adapter);
    const device = await adapter.requestDevice({
      label: "weft",
      requiredFeatures: features,
      requiredLimits: {
        maxBufferSize,
        maxStorageBufferBindingSize,
        maxComputeWorkgroupStorageSize: workgroupBytes,
        maxComputeInvocationsPerWorkgroup: workgroupThreads,
        maxComputeWorkgroupSizeX: workgroupThreads,
      },
    });
    return {
      device,
      limits: {
        bufferBytes: maxBufferSize,
        bindingBytes: bindingBytes - (bindingBytes % 4),
        workgroupBytes,
        workgroupThreads,
      },
      hasSubgroups: features.includes("subgroups"),
      hasIntegerDots: hasIntegerDots(gpu),
      hasF16: features.includes("shader-f16"),
      hasMatrixUnits: features.includes(kUnits),
      hasTimestamps: features.includes("timestamp-query"),
      description: [info.vendor, info.architecture].filter(Boolean).join(" "),
      identity: identityOf(adapter),
      isHardware: !info.isFallbackAdapter && info.architecture !== "swiftshader",
      info,
    };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new EngineError("unavailable", `The WebGPU adapter gives no device: ${why}`);
  }
}
