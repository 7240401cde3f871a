// Which card is which, on folders as Linux and NVIDIA's driver write them, and a /dev of one card.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync }
  from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { isCard, parseAdapter, parseNvidiaQuery, systemCards } from "./cards.ts";
import type { Card } from "./cards.ts";
import { commandWithOnly, namespaceOptions, onlyCard } from "./onlyCard.ts";

const kUuids = ["0a1b2c3d", "ffffffff"].map((it) => `GPU-${it}-0000-1111-2222-333344445555`);
const kPlain = kUuids.map((it) => it.slice(4).replaceAll("-", ""));
const kModel = "NVIDIA H100 80GB HBM3";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "weft-cards-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, text = ""): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

// A card as DRM knows it: sys/class/drm/renderD128/device is a link to its folder of the bus.
function addDrm(names: string[], pci: string, vendor: string): void {
  write(`sys/devices/pci/${pci}/vendor`, `${vendor}\n`);
  for (const name of names) {
    mkdirSync(join(root, "sys/class/drm", name), { recursive: true });
    symlinkSync(join(root, "sys/devices/pci", pci), join(root, "sys/class/drm", name, "device"));
    write(`dev/dri/${name}`);
  }
}

function addNvidia(pci: string, minor: number, uuid: string): void {
  write(`proc/driver/nvidia/gpus/${pci}/information`,
    `Model: \t\t ${kModel}\nIRQ:   \t\t 0\nGPU UUID: \t ${uuid}\nBus Location: \t ${pci}\n` +
      `Device Minor: \t ${minor}\nGPU Excluded:\t No\n`);
  write(`dev/nvidia${minor}`);
}

const linux = describe.runIf(process.platform === "linux");

linux("the system's cards", () => {
  it("are those of NVIDIA's driver, whose numbers need not be in the order of the bus", () => {
    addNvidia("0000:41:00.0", 1, kUuids[0]!);
    addNvidia("0000:c1:00.0", 0, kUuids[1]!);
    addDrm(["card1", "renderD128"], "0000:41:00.0", "0x10de");
    const cards = systemCards(root, () => "");
    expect(cards).toEqual([
      { pci: "0000:41:00.0", vendor: "nvidia", name: kModel, uuid: kPlain[0],
        nodes: ["/dev/nvidia1", "/dev/dri/card1", "/dev/dri/renderD128"] },
      { pci: "0000:c1:00.0", vendor: "nvidia", name: kModel, uuid: kPlain[1],
        nodes: ["/dev/nvidia0"] },
    ]);
  });

  it("are what nvidia-smi says where the driver's folder is not there", () => {
    const block = (pci: string, minor: number, uuid: string): string =>
      `GPU ${pci}\n    Product Name                          : ${kModel}\n` +
      `    GPU UUID                              : ${uuid}\n` +
      `    Minor Number                          : ${minor}\n`;
    const text = "==============NVSMI LOG==============\n\nAttached GPUs          : 2\n" +
      block("00000000:41:00.0", 0, kUuids[0]!) + block("00000000:C1:00.0", 1, kUuids[1]!);
    expect(parseNvidiaQuery(text).map(({ pci, nodes }) => [pci, ...nodes]))
      .toEqual([["0000:41:00.0", "/dev/nvidia0"], ["0000:c1:00.0", "/dev/nvidia1"]]);
    write("dev/nvidia1"); // the other one is hidden
    expect(systemCards(root, () => text).map(({ uuid }) => uuid)).toEqual([kPlain[1]]);
    expect(parseNvidiaQuery("No devices were found")).toEqual([]);
  });

  it("are those of DRM, of any maker, and none without device files", () => {
    addDrm(["card0", "renderD128"], "0000:03:00.0", "0x1002");
    addDrm(["card1", "renderD129"], "0000:04:00.0", "0x1002");
    rmSync(join(root, "dev/dri/card1"));
    rmSync(join(root, "dev/dri/renderD129"));
    mkdirSync(join(root, "sys/class/drm/card0-DP-1"));
    expect(systemCards(root, () => "").map(({ pci, vendor }) => [pci, vendor]))
      .toEqual([["0000:03:00.0", "amd"]]);
    expect(systemCards(join(root, "nothing"), () => "")).toEqual([]);
  });
});

describe("a card", () => {
  const card: Card = {
    pci: "0000:41:00.0", vendor: "nvidia", name: kModel, uuid: kPlain[0]!, nodes: ["/dev/nvidia9"],
  };

  it("is named by its place on the bus, its device file or its UUID", () => {
    for (const text of ["41:00.0", "0000:41:00.0", "00000000:41:00.0", "/dev/nvidia9", kUuids[0]!,
      kUuids[0]!.toUpperCase(), kPlain[0]!]) {
      expect(isCard(card, parseAdapter(text)), text).toBe(true);
    }
    for (const text of ["42:00.0", "/dev/nvidia8", kUuids[1]!, "9"]) {
      expect(isCard(card, parseAdapter(text)), text).toBe(false);
    }
    expect(parseAdapter("12")).toEqual({ kind: "index", index: 12 });
    for (const text of ["", "-1", "first", "1000", "41:00", "nvidia0", "GPU-12"]) {
      expect(() => parseAdapter(text), text).toThrow(`--adapter is '${text}'; expected a number`);
    }
  });
});

describe("a program that sees one card", () => {
  it("knows which", () => {
    expect(onlyCard({ WEFT_ONLY_CARD: "0000:41:00.0 1" })).toEqual({
      pci: "0000:41:00.0", index: 1,
    });
    for (const text of ["", "1", "0000:41:00.0"]) {
      expect(onlyCard({ WEFT_ONLY_CARD: text })).toBeNull();
    }
    expect(onlyCard({})).toBeNull();
  });

  it.runIf(namespaceOptions() !== null)("has its device files and none of the others", () => {
    // A device file that nobody needs stands for the card.
    const kNeeded = /^(null|zero|full|u?random|tty|console|ptmx)$/;
    const device = readdirSync("/dev").find((name) =>
      !kNeeded.test(name) && statSync(join("/dev", name)).isCharacterDevice());
    expect(device).toBeDefined();
    const card = { pci: "", vendor: "", name: "", uuid: "", nodes: [`/dev/${device}`] };
    // Nothing can be added: NVIDIA's driver makes the files of other cards again, as root.
    const say = 'ls /dev; echo end; echo >/dev/null; (: > /dev/more) 2>/dev/null && echo added; ' +
      'test -c "/dev/$1" && echo "$2"; exit 7';
    const [program, ...args] =
      commandWithOnly(card, ["sh", "-c", say, "sh", device!, "two words"]);
    // Other programs use the machine's own one meanwhile.
    const temporary = mkdtempSync(join(tmpdir(), "weft-cards-"));
    let said = "";
    try {
      const env = { ...process.env, TMPDIR: temporary };
      execFileSync(program!, args, { encoding: "utf8", env });
    } catch (error) {
      const ended = error as { status: number; stdout: string };
      expect(ended.status).toBe(7);
      said = ended.stdout;
    }
    const [files = "", rest] = said.split("end\n");
    expect(files.split("\n")).toEqual(expect.arrayContaining([device, "null", "stderr"]));
    expect(files).not.toMatch(/^(loop|sd|nvme|vcs)/m);
    expect(rest).toBe("two words\n");
    expect(readdirSync(temporary)).toEqual([]);
    rmSync(temporary, { recursive: true });
    expect(readdirSync("/dev")).toContain(device);
  });
});
