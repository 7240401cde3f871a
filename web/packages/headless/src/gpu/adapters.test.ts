// Which adapter computes, and what is said where none may. Dawn is the test's: real GPUs differ.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { chooseAdapter, listAdapters, openAdapter, theOnlyAdapter } from "./adapters.ts";
import type { ChosenAdapter } from "./adapters.ts";
import type { AdapterWish, Card } from "./cards.ts";
import type { Dawn } from "./dawn.ts";
import { findDawn } from "./dawn.ts";
import { amdCards, cardMemory, defaultOffer, parseNvidiaSmi } from "./memory.ts";

interface FakeCard {
  readonly name: string;
  readonly vendor: string;
  readonly isFallbackAdapter?: boolean;
}

const kCard = { name: "GeForce RTX 4090", vendor: "nvidia" };
const kSmall = { name: "UHD Graphics 770", vendor: "intel" };
const kSoftware = { name: "SwiftShader Device", vendor: "google", isFallbackAdapter: true };

// Dawn as it is: the first adapter whose name contains the wanted one, else an error with a list.
function dawnOf(...cards: FakeCard[]): Dawn & { taken: string[] } {
  const taken: string[] = [];
  const create = (flags: string[]): GPU => {
    const wanted = flags.find((flag) => flag.startsWith("adapter="))?.slice(8) ?? "";
    const requestAdapter = (): Promise<GPUAdapter> => {
      const card = cards.find(({ name }) => name.includes(wanted));
      if (card) return Promise.resolve({ info: card } as unknown as GPUAdapter);
      const list = cards.map(({ name }) => ` * backend: 'vulkan', name: '${name}'\n`);
      const text = `no adapter with name '${wanted}' found\nAvailable adapters:\n${list.join("")}`;
      return Promise.reject(new Error(text));
    };
    taken.push(wanted);
    return { requestAdapter } as unknown as GPU;
  };
  return { create, taken };
}

async function chosen(
  dawn: Dawn, wish: AdapterWish | null, allowSoftware = false,
): Promise<ChosenAdapter> {
  return openAdapter(dawn, chooseAdapter(await listAdapters(dawn, []), wish, allowSoftware));
}

const numbered = (index: number): AdapterWish => ({ kind: "index", index });

function cardAt(pci: string, name = "", vendor = "nvidia"): Card {
  return { pci, vendor, name, uuid: "", nodes: [`/dev/at-${pci}`] };
}

describe("the adapter", () => {
  it("is the first that computes on a GPU", async () => {
    const dawn = dawnOf(kSoftware, kCard, kSmall);
    expect(await chosen(dawn, null)).toMatchObject({ index: 1, name: kCard.name });
    expect(dawn.taken.at(-1)).toBe(kCard.name);
  });

  it("is the one that was asked for", async () => {
    const dawn = dawnOf(kCard, kSmall);
    expect(await chosen(dawn, numbered(1))).toMatchObject({ index: 1, vendor: "intel" });
    await expect(chosen(dawn, numbered(2))).rejects.toThrow("names those from 0 to 1");
  });

  it("is not a software adapter without a word", async () => {
    await expect(chosen(dawnOf(kSoftware), null)).rejects
      .toThrow("'SwiftShader Device' is a software adapter");
  });

  it("must be there", async () => {
    await expect(chosen(dawnOf(), null, true)).rejects.toThrow("There is no GPU");
  });

  it("of two that share a name, or a part of one, is told apart", async () => {
    const laptop = { name: `${kCard.name} Laptop GPU`, vendor: "nvidia" };
    const dawn = dawnOf(laptop, kCard, kCard);
    expect((await listAdapters(dawn)).map(({ isReachable }) => isReachable))
      .toEqual([true, false, false]);
    await expect(chosen(dawn, numbered(1))).rejects.toThrow("has the name of another");
  });

  it("is one of the system's cards, equal ones in the order of the bus", async () => {
    const cards = [cardAt("0000:02:00.0", kCard.name), cardAt("0000:03:00.0", kCard.name),
      cardAt("0000:04:00.0", "", "intel"), cardAt("0000:05:00.0", "Another")];
    const entries = await listAdapters(dawnOf(kSmall, kCard, kSoftware, kCard), cards);
    expect(entries.map(({ card, isAlone }) => [card?.pci ?? "", isAlone])).toEqual([
      ["0000:04:00.0", true], ["0000:02:00.0", false], ["", true], ["0000:03:00.0", false],
    ]);
    const second = chooseAdapter(entries, { kind: "pci", value: "0000:03:00.0" }, false);
    expect(second.index).toBe(3);
    expect(chooseAdapter(entries, { kind: "node", value: "/dev/at-0000:04:00.0" }, false).index)
      .toBe(0);
    expect(() => chooseAdapter(entries, { kind: "pci", value: "0000:05:00.0" }, false))
      .toThrow("There is no adapter 0000:05:00.0");
    // Of one card too few nobody knows which it is.
    const fewer = await listAdapters(dawnOf(kCard, kCard), cards.slice(0, 1));
    expect(fewer.map(({ card }) => card)).toEqual([null, null]);
  });

  it("is the only one where the others are hidden", async () => {
    const only = { pci: "0000:03:00.0", index: 1 };
    const entries = await listAdapters(dawnOf(kSoftware, kCard), []);
    expect(theOnlyAdapter(entries, only)).toMatchObject({ index: 1, name: kCard.name });
    const shown = await listAdapters(dawnOf(kCard, kCard), []);
    expect(() => theOnlyAdapter(shown, only)).toThrow("0000:03:00.0 was to be the only one");
  });
});

describe("memory", () => {
  const kGiB = 2 ** 30;

  it("is what the drivers say", async () => {
    const said = "40960, 81559, 00000000:41:00.0\n1024, 24576, 00000000:C1:00.0\n";
    expect(parseNvidiaSmi(said)).toEqual([
      { freeBytes: 40 * kGiB, totalBytes: 81_559 * 2 ** 20, pci: "0000:41:00.0" },
      { freeBytes: kGiB, totalBytes: 24 * kGiB, pci: "0000:c1:00.0" },
    ]);
    expect(parseNvidiaSmi("No devices were found")).toEqual([]);
    const folder = mkdtempSync(join(tmpdir(), "weft-drm-"));
    for (const [card, total, used] of [["card0", 16, 2], ["card1", 8, 8]] as const) {
      mkdirSync(join(folder, card, "device"), { recursive: true });
      writeFileSync(join(folder, card, "device", "mem_info_vram_total"), `${total * kGiB}\n`);
      writeFileSync(join(folder, card, "device", "mem_info_vram_used"), `${used * kGiB}\n`);
    }
    mkdirSync(join(folder, "card2"));
    expect(amdCards(folder)).toEqual([
      { totalBytes: 16 * kGiB, freeBytes: 14 * kGiB }, { totalBytes: 8 * kGiB, freeBytes: 0 },
    ]);
    rmSync(folder, { recursive: true });
    const [entry] = await listAdapters(dawnOf(kSmall));
    expect(await cardMemory(entry!, [entry!])).toBeNull();
  });

  it("is offered as far as it is free", () => {
    expect(defaultOffer({ freeBytes: 10 * kGiB, totalBytes: 24 * kGiB })).toBe(9 * kGiB);
    expect(defaultOffer(null)).toBeGreaterThan(0);
    expect(defaultOffer(null, true)).toBeLessThanOrEqual(kGiB);
  });
});

describe("Dawn", () => {
  it("that is not installed has a line that installs it", async () => {
    await expect(findDawn([tmpdir()])).rejects
      .toThrow(/This line installs it: npm install --prefix .* webgpu@\d/);
  });

  it("that cannot be loaded says why", async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-dawn-"));
    mkdirSync(join(folder, "webgpu"));
    writeFileSync(join(folder, "webgpu", "index.js"), "throw new Error('no such library');");
    const failed = expect(findDawn([folder])).rejects;
    await failed.toThrow(/cannot be loaded \(no such library\)/);
    rmSync(folder, { recursive: true });
  });

  it("is the version that the tests run with", async () => {
    const { version } = JSON.parse(execFileSync("cat", ["node_modules/webgpu/package.json"], {
      encoding: "utf8",
    })) as { version: string };
    await expect(findDawn([tmpdir()])).rejects.toThrow(`webgpu@${version}`);
  });
});
