// How much memory an adapter has, and how much is offered when the user says nothing. WebGPU does
// not tell, so the system is asked; what is offered is then taken from the GPU before it is
// promised (gpu/probe.ts of the engine).
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { freemem } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import type { AdapterEntry } from "./adapters.ts";

const kMiB = 2 ** 20;
const kCards = "/sys/class/drm";
// Of the free memory of a card: the desktop, and drivers, want some of the rest.
const kShareOfCard = 0.9;
// Of the system's, for adapters that have none of their own.
const kShareOfSystem = 0.5;
// Of a software adapter, which clears some 60 MB a second on a busy machine.
const kSoftwareBytes = 1024 * kMiB;

export interface CardMemory {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

// "40960, 81559, 00000000:41:00.0": one line a card, in the order of the bus, as Vulkan lists them.
export function parseNvidiaSmi(text: string): (CardMemory & { readonly pci: string })[] {
  return text.trim().split("\n").flatMap((line) => {
    const [free, total, bus = ""] = line.split(",");
    if (!(Number(free) >= 0 && Number(total) > 0)) return [];
    const pci = bus.trim().toLowerCase().slice(-"0000:41:00.0".length);
    return [{ freeBytes: Number(free) * kMiB, totalBytes: Number(total) * kMiB, pci }];
  });
}

async function nvidiaCards(): Promise<(CardMemory & { readonly pci: string })[]> {
  try {
    const { stdout } = await promisify(execFile)(
      "nvidia-smi",
      ["--query-gpu=memory.free,memory.total,pci.bus_id", "--format=csv,noheader,nounits"],
      { timeout: 5000 },
    );
    return parseNvidiaSmi(stdout);
  } catch {
    return []; // it is not there
  }
}

// Linux's amdgpu says what its cards have.
export function amdCards(folder = kCards): CardMemory[] {
  const cards: CardMemory[] = [];
  try {
    for (const name of readdirSync(folder).filter((it) => /^card\d+$/.test(it)).sort()) {
      const read = (file: string): number =>
        Number(readFileSync(join(folder, name, "device", file), "utf8"));
      try {
        const totalBytes = read("mem_info_vram_total");
        cards.push({ totalBytes, freeBytes: totalBytes - read("mem_info_vram_used") });
      } catch {
        // A card of another make.
      }
    }
  } catch {
    // Another system.
  }
  return cards;
}

// Null: it shares the system's memory, or does not tell.
export async function cardMemory(
  adapter: AdapterEntry,
  all: readonly AdapterEntry[],
): Promise<CardMemory | null> {
  const alike = all.filter(({ vendor }) => vendor === adapter.vendor);
  const place = alike.findIndex(({ index }) => index === adapter.index);
  if (adapter.vendor === "nvidia") {
    const cards = await nvidiaCards();
    return cards.find(({ pci }) => pci === adapter.card?.pci) ?? cards[place] ?? null;
  }
  if (adapter.vendor === "amd") return amdCards()[place] ?? null;
  return null;
}

export function defaultOffer(card: CardMemory | null, isSoftware = false): number {
  if (card) return Math.floor(card.freeBytes * kShareOfCard);
  const bytes = Math.floor(freemem() * kShareOfSystem);
  return isSoftware ? Math.min(bytes, kSoftwareBytes) : bytes;
}
