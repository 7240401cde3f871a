// The adapters that Dawn finds, and the one that is to compute.
import { UsageError } from "../server/address.ts";
import { isCard, systemCards } from "./cards.ts";
import type { AdapterWish, Card } from "./cards.ts";
import type { Dawn } from "./dawn.ts";
import type { OnlyCard } from "./onlyCard.ts";

export interface AdapterEntry {
  readonly index: number;
  readonly name: string; // as its driver says: equal cards have equal ones
  readonly vendor: string; // "nvidia"
  readonly isSoftware: boolean;
  readonly isReachable: boolean; // Dawn can be told to take it
  readonly isAlone: boolean; // no other one has its name, or a name that holds it
  readonly card: Card | null; // null: the system does not say which one it is
}

export interface ChosenAdapter extends AdapterEntry {
  readonly gpu: GPU;
}

const kBackends: Partial<Record<NodeJS.Platform, string>> = { darwin: "metal", win32: "d3d12" };

// Kernels read nothing of a workgroup's memory that they did not write (the tests run so, too):
// that Dawn clears it first is time lost. Matrix units are an experiment of Dawn's, which it tells
// of only where such may be used; what a kernel may reach stays bounded all the same.
const kFlags = [
  `backend=${kBackends[process.platform] ?? "vulkan"}`,
  "enable-dawn-features=disable_workgroup_init,allow_unsafe_apis",
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

// Which of the system's cards each name is. Drivers and the bus have equal cards in one order.
function cardsOf(
  adapters: readonly { name: string; vendor: string }[], cards: readonly Card[],
): (Card | null)[] {
  return adapters.map(({ name, vendor }, index) => {
    const isLike = (card: Card): boolean =>
      card.vendor === vendor && (card.name === "" || card.name === name);
    const equal = adapters.flatMap((it, place) =>
      it.name === name && it.vendor === vendor ? [place] : []);
    const alike = cards.filter(isLike);
    return alike.length === equal.length ? alike[equal.indexOf(index)]! : null;
  });
}

export async function listAdapters(
  dawn: Dawn, cards: readonly Card[] = systemCards(),
): Promise<AdapterEntry[]> {
  const names = await namesOf(dawn);
  const entries: Omit<AdapterEntry, "card">[] = [];
  for (const [index, name] of names.entries()) {
    const adapter = await adapterOf(create(dawn, [`adapter=${name}`]));
    const { vendor = "", architecture = "", isFallbackAdapter = false } = adapter?.info ?? {};
    // Dawn takes the first adapter whose name contains what it is given.
    const isReachable = adapter !== null && names.findIndex((it) => it.includes(name)) === index;
    const isSoftware =
      isFallbackAdapter || architecture === "swiftshader" || /llvmpipe|WARP/i.test(name);
    const isAlone = names.filter((it) => it.includes(name)).length === 1;
    entries.push({ index, name, vendor, isSoftware, isReachable, isAlone });
  }
  const places = cardsOf(entries, cards);
  return entries.map((entry, index) => ({ ...entry, card: places[index]! }));
}

// A software adapter needs the processor's cores that a busy event loop would take.
function slowTurns(): void {
  const later = (callback: () => void): NodeJS.Timeout => setTimeout(callback, 1);
  Reflect.set(globalThis, "setImmediate", later);
}

// `wish`: null takes the first that computes on a GPU. Throws UsageError with what to do.
export function chooseAdapter(
  entries: readonly AdapterEntry[],
  wish: AdapterWish | null,
  allowSoftware: boolean,
): AdapterEntry {
  const entry = wish === null
    ? (entries.find(({ isSoftware }) => !isSoftware) ?? entries[0])
    : wish.kind === "index"
      ? entries[wish.index]
      : entries.find(({ card }) => card !== null && isCard(card, wish));
  if (!entry) throw new UsageError(nothingFound(entries, wish));
  if (entry.isSoftware && !allowSoftware) {
    throw new UsageError(
      `'${entry.name}' is a software adapter: it computes on the processor, more slowly than ` +
        `'weft worker' without --gpu. Install the driver of your GPU, or say --allow-software.`,
    );
  }
  return entry;
}

// In a program that runs where the others are hidden. Throws UsageError where they are not.
export function theOnlyAdapter(entries: readonly AdapterEntry[], only: OnlyCard): AdapterEntry {
  const gpus = entries.filter(({ isSoftware }) => !isSoftware);
  if (gpus.length === 1) return { ...gpus[0]!, index: only.index };
  throw new UsageError(
    `The GPU at ${only.pci} was to be the only one that this process sees, but its driver shows ` +
      `${gpus.length}: ${gpus.map(({ name }) => name).join(", ") || "none"}.`,
  );
}

// Throws UsageError where Dawn would take another one.
export function openAdapter(dawn: Dawn, entry: AdapterEntry): ChosenAdapter {
  if (!entry.isReachable) {
    throw new UsageError(
      `Adapter ${entry.index} has the name of another ('${entry.name}'), by which alone Dawn ` +
        `tells them apart, and the system does not say which card it is.`,
    );
  }
  if (entry.isSoftware) slowTurns();
  return { ...entry, gpu: create(dawn, [`adapter=${entry.name}`]) };
}

function nothingFound(entries: readonly AdapterEntry[], wish: AdapterWish | null): string {
  if (wish !== null && entries.length > 0) {
    const wanted = wish.kind === "index" ? String(wish.index) : wish.value;
    return `There is no adapter ${wanted}: 'weft worker --gpu --adapter list' names those from ` +
      `0 to ${entries.length - 1}.`;
  }
  const linux = process.platform === "linux"
    ? " and the Vulkan loader (Debian, Ubuntu: apt-get install libvulkan1)" : "";
  return `There is no GPU that Dawn can use. Install its driver${linux}, or help with the ` +
    `processor: 'weft worker' without --gpu.`;
}
