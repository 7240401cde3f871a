// The graphics cards of a Linux machine as its drivers name them: what Dawn, which knows names
// only, does not tell. Elsewhere there are none.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";

import { UsageError } from "../server/address.ts";

export interface Card {
  readonly pci: string; // "0000:41:00.0"
  readonly vendor: string; // as Dawn's, "nvidia"; "" for others than the three that kVendors has
  readonly name: string; // as NVIDIA's driver says; "" for the others
  readonly uuid: string; // of NVIDIA's driver and Vulkan, 32 hexadecimal digits; or ""
  readonly nodes: readonly string[]; // device files of this card alone: "/dev/nvidia1"
}

// How a user names a card.
export type AdapterWish =
  | { readonly kind: "index"; readonly index: number }
  | { readonly kind: "pci" | "node" | "uuid"; readonly value: string };

const kVendors: Readonly<Record<string, string>> = {
  "0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel",
};
const kPci = /^(?:0{0,4}([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$/;

// "00000000:41:00.0", as NVIDIA's tools write it, "41:00.0" and "0000:41:00.0" are one; null: none.
function plainPci(text: string): string | null {
  const [, domain = "0000", rest] = kPci.exec(text.toLowerCase()) ?? [];
  return rest === undefined ? null : `${domain}:${rest}`;
}

function plainUuid(text: string): string | null {
  const digits = text.toLowerCase().replace(/^gpu-/, "").replaceAll("-", "");
  return /^[0-9a-f]{32}$/.test(digits) ? digits : null;
}

// Throws UsageError.
export function parseAdapter(text: string): AdapterWish {
  if (/^\d{1,3}$/.test(text)) return { kind: "index", index: Number(text) };
  const pci = plainPci(text);
  if (pci !== null) return { kind: "pci", value: pci };
  const uuid = plainUuid(text);
  if (uuid !== null) return { kind: "uuid", value: uuid };
  if (text.startsWith("/dev/")) {
    return { kind: "node", value: existsSync(text) ? realpathSync(text) : text };
  }
  throw new UsageError(
    `--adapter is '${text}'; expected a number, a PCI address (0000:41:00.0), a device file ` +
      `(/dev/nvidia1) or a UUID that '--adapter list' shows.`,
  );
}

export function isCard(card: Card, wish: AdapterWish): boolean {
  if (wish.kind === "pci") return card.pci === wish.value;
  if (wish.kind === "uuid") return card.uuid !== "" && card.uuid === wish.value;
  return wish.kind === "node" && card.nodes.includes(wish.value);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

function field(text: string, name: string): string {
  return new RegExp(`^\\s*${name}\\s*:\\s*(.*?)\\s*$`, "m").exec(text)?.[1] ?? "";
}

function nvidiaCard(pci: string, text: string, fields: readonly string[]): Card {
  const [name = "", uuid = "", minor = ""] = fields.map((it) => field(text, it));
  return {
    pci: plainPci(pci) ?? pci, vendor: "nvidia", name, uuid: plainUuid(uuid) ?? "",
    nodes: /^\d+$/.test(minor) ? [`/dev/nvidia${minor}`] : [],
  };
}

// What `nvidia-smi -q` says: a block for each card, which begins with "GPU 00000000:41:00.0".
export function parseNvidiaQuery(text: string): Card[] {
  return text.split(/^GPU (?=[0-9A-Fa-f]+:)/m).slice(1).map((block) =>
    nvidiaCard(block.split("\n")[0]!.trim(), block, ["Product Name", "GPU UUID", "Minor Number"]));
}

function nvidiaQuery(): string {
  try {
    return execFileSync("nvidia-smi", ["-q"], {
      encoding: "utf8", timeout: 10_000, stdio: ["ignore", "pipe", "ignore"],
    });
  } catch {
    return ""; // it is not there
  }
}

function nvidiaCards(root: string, query: () => string): Card[] {
  const folder = join(root, "proc/driver/nvidia/gpus");
  const names = namesIn(folder);
  if (names.length === 0) return parseNvidiaQuery(query());
  return names.flatMap((pci) => {
    try {
      const text = readFileSync(join(folder, pci, "information"), "utf8");
      return [nvidiaCard(pci, text, ["Model", "GPU UUID", "Device Minor"])];
    } catch {
      return [];
    }
  });
}

// Cards whose device files this process sees, in the order of the bus. `root` and `query` are the
// tests'.
export function systemCards(root = "/", query = nvidiaQuery): Card[] {
  if (process.platform !== "linux") return [];
  const cards = new Map(nvidiaCards(root, query).map((card) => [card.pci, card]));
  const folder = join(root, "sys/class/drm");
  for (const name of namesIn(folder).filter((it) => /^(card|renderD)\d+$/.test(it))) {
    try {
      const device = realpathSync(join(folder, name, "device"));
      const pci = plainPci(basename(device));
      if (pci === null) continue;
      const vendor = kVendors[readFileSync(join(device, "vendor"), "utf8").trim()] ?? "";
      const known = cards.get(pci) ?? { pci, vendor, name: "", uuid: "", nodes: [] };
      cards.set(pci, { ...known, nodes: [...known.nodes, `/dev/dri/${name}`] });
    } catch {
      // A connector, or a card that was pulled out.
    }
  }
  const seen = (node: string): boolean => existsSync(join(root, node));
  return [...cards.values()]
    .map((card) => ({ ...card, nodes: card.nodes.filter(seen) }))
    // NVIDIA's Vulkan driver reaches a card through /dev/nvidiaN alone.
    .filter(({ vendor, nodes }) =>
      vendor === "nvidia" ? nodes.some((it) => it.startsWith("/dev/nvidia")) : nodes.length > 0)
    .sort((a, b) => (a.pci < b.pci ? -1 : 1));
}
