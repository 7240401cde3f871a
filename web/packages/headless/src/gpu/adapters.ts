// The adapters that Dawn finds, and the one that is to compute.
import { UsageError } from "../server/address.ts";
import type { Dawn } from "./dawn.ts";

export interface AdapterEntry {
  readonly index: number;
  readonly name: string; // as its driver says: equal cards have equal ones
  readonly vendor: string; // "nvidia"
  readonly isSoftware: boolean;
  readonly isReachable: boolean; // Dawn can be told to take it
}

export interface ChosenAdapter extends AdapterEntry {
  readonly gpu: GPU;
}

const kBackends: Partial<Record<NodeJS.Platform, string>> = { darwin: "metal", win32: "d3d12" };

// Kernels read nothing of a workgroup's memory that they did not write (the tests run so, too):
// that Dawn clears it first is time lost.
const kFlags = [
  `backend=${kBackends[process.platform] ?? "vulkan"}`,
  "enable-dawn-features=disable_workgroup_init",
];

// No adapter has this name: Dawn then lists those that it has.
const kNobody = "adapter=\u0001";

// Dawn dies when its instance is collected before its devices.
const instances: GPU[] = [];

function create(dawn: Dawn, flags: string[]): GPU {
  const gpu = dawn.create([...kFlags, ...flags]);
  instances.push(gpu);
  return gpu;
}

async function namesOf(dawn: Dawn): Promise<string[]> {
  try {
    await create(dawn, [kNobody]).requestAdapter();
    return [];
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return [...text.matchAll(/name: '(.*)'\s*$/gm)].map(([, name]) => name!);
  }
}

async function adapterOf(gpu: GPU): Promise<GPUAdapter | null> {
  return await gpu.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
}

export async function listAdapters(dawn: Dawn): Promise<AdapterEntry[]> {
  const names = await namesOf(dawn);
  const entries: AdapterEntry[] = [];
  for (const [index, name] of names.entries()) {
    const adapter = await adapterOf(create(dawn, [`adapter=${name}`]));
    const { vendor = "", architecture = "", isFallbackAdapter = false } = adapter?.info ?? {};
    // Dawn takes the first adapter whose name contains what it is given.
    const isReachable = adapter !== null && names.findIndex((it) => it.includes(name)) === index;
    const isSoftware =
      isFallbackAdapter || architecture === "swiftshader" || /llvmpipe|WARP/i.test(name);
    entries.push({ index, name, vendor, isSoftware, isReachable });
  }
  return entries;
}

// A software adapter needs the processor's cores that a busy event loop would take.
function slowTurns(): void {
  const later = (callback: () => void): NodeJS.Timeout => setTimeout(callback, 1);
  Reflect.set(globalThis, "setImmediate", later);
}

// `index`: null takes the first that computes on a GPU. Throws UsageError with what to do.
export async function chooseAdapter(
  dawn: Dawn,
  index: number | null,
  allowSoftware: boolean,
): Promise<ChosenAdapter> {
  const entries = await listAdapters(dawn);
  const entry = index === null
    ? (entries.find(({ isSoftware }) => !isSoftware) ?? entries[0])
    : entries[index];
  if (!entry) throw new UsageError(nothingFound(entries, index));
  if (entry.isSoftware && !allowSoftware) {
    throw new UsageError(
      `'${entry.name}' is a software adapter: it computes on the processor, more slowly than ` +
        `'weft worker' without --gpu. Install the driver of your GPU, or say --allow-software.`,
    );
  }
  if (!entry.isReachable) {
    throw new UsageError(
      `Adapter ${entry.index} has the name of another ('${entry.name}'), by which alone Dawn ` +
        `tells them apart.`,
    );
  }
  if (entry.isSoftware) slowTurns();
  return { ...entry, gpu: create(dawn, [`adapter=${entry.name}`]) };
}

function nothingFound(entries: readonly AdapterEntry[], index: number | null): string {
  if (index !== null && entries.length > 0) {
    return `There is no adapter ${index}: 'weft worker --gpu --list' names those from 0 to ` +
      `${entries.length - 1}.`;
  }
  const linux = process.platform === "linux"
    ? " and the Vulkan loader (Debian, Ubuntu: apt-get install libvulkan1)" : "";
  return `There is no GPU that Dawn can use. Install its driver${linux}, or help with the ` +
    `processor: 'weft worker' without --gpu.`;
}
