// Tuning with a rig and a clock that the test moves: what wins, what is noise, what is kept.
import { describe, expect, it } from "vitest";

import type { Gpu } from "../gpu/open.ts";
import type { Arithmetic } from "../kernels/product/arithmetic.ts";
import { counterDouble } from "../sampling/random.ts";
import { defaultArithmetic, isCandidate, stagesOf } from "./candidates.ts";
import { compare, gainOf } from "./compare.ts";
import { hashOf, MemoryTuneStore, readChoice } from "./store.ts";
import { tune, tunedText } from "./tune.ts";
import type { Rig, TuneParts } from "./tune.ts";

const kKey = "device|driver|kernels";
const kAny = { products: null } as const;

const gpu = {
  hasSubgroups: true,
  hasIntegerDots: true,
  hasF16: true,
  hasTimestamps: false,
  isHardware: true,
  limits: { workgroupBytes: 32_768, workgroupThreads: 256 },
} as Gpu;

// A device on which a run takes `msOf(arithmetic, rows)`, and a clock that goes only then.
class Fake {
  nowMs = 0;
  runs = 0;
  rigs = 0;
  freed = 0;
  readonly store = new MemoryTuneStore();
  #wake: { at: number; resolve: () => void }[] = [];

  readonly msOf: (arithmetic: Arithmetic, rows: number) => number;
  readonly #compileMs: number; // of a candidate

  constructor(msOf: Fake["msOf"], compileMs = 0) {
    this.msOf = msOf;
    this.#compileMs = compileMs;
  }

  #pass(ms: number): Promise<void> {
    this.nowMs += ms;
    for (const { at, resolve } of this.#wake) if (at <= this.nowMs) resolve();
    return Promise.resolve();
  }

  async #run(arithmetic: Arithmetic, rows: number): Promise<number> {
    ++this.runs;
    const ms = this.msOf(arithmetic, rows);
    await this.#pass(ms);
    return ms;
  }

  #rig(): Rig {
    ++this.rigs;
    return {
      warmUp: (_, ms) => this.#pass(ms),
      sampleOf: async (arithmetic, rows) => {
        if (this.#compileMs > 0) await this.#pass(this.#compileMs);
        return this.msOf(arithmetic, rows) < 0 ? null : () => this.#run(arithmetic, rows);
      },
      free: () => void ++this.freed,
    };
  }

  get parts(): TuneParts {
    return {
      store: this.store,
      key: kKey,
      makeRig: () => this.#rig(),
      now: () => this.nowMs,
      sleep: (ms) => {
        const at = this.nowMs + ms;
        return new Promise((resolve) => this.#wake.push({ at, resolve }));
      },
    };
  }
}

const usual = defaultArithmetic(gpu, kAny);

describe("the guard against noise", () => {
  const base = [10, 10.2, 9.9, 10.1, 10, 9.8, 10];

  it("lets a clear gain win", () => {
    expect(gainOf(base, base.map((ms) => ms / 1.3))).toBeCloseTo(0.3);
  });

  it("keeps the default at a gain of less than a tenth", () => {
    expect(gainOf(base, base.map((ms) => ms / 1.08))).toBe(0);
  });

  it("keeps the default where times spread more than they gain", () => {
    const noisy = base.map((ms, round) => (round % 2 === 0 ? ms * 0.5 : ms * 1.4));
    expect(gainOf(base, noisy)).toBe(0);
  });

  it("keeps the default where a candidate is ahead in too few rounds", () => {
    expect(gainOf([10, 10, 10, 10, 10], [8, 8, 8, 11, 11])).toBe(0);
  });

  it("lets equal candidates of a noisy device win in few of many runs", async () => {
    let wins = 0;
    for (let run = 0; run < 200; ++run) {
      let draw = 0;
      const sample = (): Promise<number> =>
        Promise.resolve(10 * (1 + 0.2 * counterDouble(1n, run, draw++)));
      const { best } = await compare([sample, sample, sample], () => 0, 1);
      if (best !== 0) ++wins;
    }
    expect(wins).toBeLessThanOrEqual(4);
  });
});

describe("a comparison", () => {
  it("gives up on what is far slower after a round", async () => {
    const counts = [0, 0, 0];
    const of = (index: number, ms: number) => (): Promise<number> => {
      ++counts[index]!;
      return Promise.resolve(ms);
    };
    const { best } = await compare([of(0, 10), of(1, 100), of(2, 5)], () => 0, 1);
    expect(best).toBe(2);
    expect(counts[1]).toBe(1);
    expect(counts[0]).toBe(counts[2]);
  });

  it("says nothing after too few rounds", async () => {
    let now = 0;
    const of = (ms: number) => (): Promise<number> => {
      now += ms;
      return Promise.resolve(ms);
    };
    expect(await compare([of(10), of(1)], () => now, 25)).toEqual({ best: 0, rounds: 2 });
    expect(now).toBeLessThanOrEqual(25);
  });
});

describe("tuning", () => {
  it("takes what is fastest, stage by stage, and keeps it", async () => {
    const fake = new Fake(({ products, lanes, outputs, tileRows }, rows) => {
      const own = (products === "f16" ? 1 : 4) * (lanes === "shared" ? 1 : 1.5);
      return own * (rows > 1 ? 8 / tileRows : 32 / outputs);
    });
    const best = { products: "f16", lanes: "shared", outputs: 32, tileRows: 8 };
    const first = await tune(gpu, kAny, "auto", fake.parts);
    expect(first).toMatchObject({ arithmetic: best, how: "measured" });
    expect(first.ms).toBeLessThanOrEqual(2000);
    expect([fake.rigs, fake.freed]).toEqual([1, 1]);
    const { runs } = fake;
    const again = await tune(gpu, kAny, "auto", fake.parts);
    expect(again).toMatchObject({ arithmetic: best, how: "stored" });
    expect([fake.runs, fake.rigs]).toEqual([runs, 1]);
    expect(tunedText(again)).toBe(
      "f16, lanes by workgroup memory, 32 outputs, tiles of 8; stored",
    );
  });

  it("does not take serial lanes that make prompts slow", async () => {
    const fake = new Fake(({ lanes }, rows) => {
      if (lanes === "serial") return rows > 1 ? 9 : 1;
      return lanes === "shared" ? 3 : 4;
    });
    const { arithmetic } = await tune(gpu, kAny, "auto", fake.parts);
    expect(arithmetic.lanes).toBe("shared");
    const quick = new Fake(({ lanes }) => (lanes === "serial" ? 1 : 3));
    expect((await tune(gpu, kAny, "auto", quick.parts)).arithmetic.lanes).toBe("serial");
  });

  it("takes a block a thread where that is faster, with as many threads as there are", async () => {
    const quick = new Fake(({ rowWalk }) => (rowWalk === "wide" ? 1 : rowWalk ? 2 : 3));
    const first = await tune(gpu, kAny, "auto", quick.parts);
    expect(first.arithmetic).toEqual({ ...usual, rowWalk: "blocks" });
    expect(tunedText(first)).toContain(", a block a thread; measured in");
    const again = await tune(gpu, kAny, "auto", quick.parts);
    expect(again).toMatchObject({ how: "stored", arithmetic: first.arithmetic });
    const limits = { ...gpu.limits, workgroupThreads: 512 };
    const wide = new Fake(quick.msOf);
    const found = await tune({ ...gpu, limits }, kAny, "auto", wide.parts);
    expect(found.arithmetic).toEqual({ ...usual, rowWalk: "wide" });
    // Without the threads that it wants, that is no choice.
    const stored = await tune(gpu, kAny, "auto", wide.parts);
    expect(stored.arithmetic.rowWalk).toBe("blocks");
    const small = { ...gpu, limits: { ...limits, workgroupBytes: 16_384 } };
    expect((await tune(small, kAny, "auto", new Fake(quick.msOf).parts)).arithmetic).toEqual(usual);
    const slow = new Fake(({ rowWalk }) => (rowWalk ? 3 : 2));
    expect((await tune(gpu, kAny, "auto", slow.parts)).arithmetic).toEqual(usual);
  });

  it("takes matrix units where a device has them, and they are right and faster", async () => {
    const withUnits = { ...gpu, hasMatrixUnits: true };
    const quick = new Fake(({ units = false }) => (units ? 1 : 3));
    const first = await tune(withUnits, kAny, "auto", quick.parts);
    expect(first.arithmetic).toEqual({ ...usual, units: true });
    expect(tunedText(first)).toContain(", matrix units; measured in");
    expect((await tune(withUnits, kAny, "auto", quick.parts)).how).toBe("stored");
    // Another device with the same key would not take that choice.
    expect((await tune(gpu, kAny, "auto", quick.parts)).arithmetic).toEqual(usual);
    const slow = new Fake(({ units = false }) => (units ? 3 : 1));
    expect((await tune(withUnits, kAny, "auto", slow.parts)).arithmetic).toEqual(usual);
    // The rig refuses them where their bits differ.
    const wrong = new Fake(({ units = false }) => (units ? -1 : 3));
    expect((await tune(withUnits, kAny, "auto", wrong.parts)).arithmetic).toEqual(usual);
  });

  it("takes them for few rows, too, where that is faster", async () => {
    const withUnits = { ...gpu, hasMatrixUnits: true };
    const quick = new Fake(({ units = false, fewUnits = false }, rows) => {
      if (rows > 16) return units ? 1 : 3;
      return fewUnits ? 2 : 3;
    });
    const first = await tune(withUnits, kAny, "auto", quick.parts);
    expect(first.arithmetic).toEqual({ ...usual, units: true, fewUnits: true });
    expect(tunedText(first)).toContain(", matrix units from 9 rows; measured in");
    const again = await tune(withUnits, kAny, "auto", quick.parts);
    expect(again).toMatchObject({ how: "stored", arithmetic: first.arithmetic });
    // Never without those of many rows.
    const slow = new Fake(({ units = false, fewUnits = false }) => (units && !fewUnits ? 3 : 1));
    expect((await tune(withUnits, kAny, "auto", slow.parts)).arithmetic).toEqual(usual);
  });

  it("measures anew for another key", async () => {
    const fake = new Fake(() => 1);
    await tune(gpu, kAny, "auto", fake.parts);
    const other = await tune(gpu, kAny, "auto", { ...fake.parts, key: "another driver" });
    expect(other.how).toBe("measured");
    expect(fake.rigs).toBe(2);
  });

  it("keeps the default where nothing is faster", async () => {
    const fake = new Fake(() => 1);
    const { arithmetic } = await tune(gpu, kAny, "auto", fake.parts);
    expect(arithmetic).toEqual(usual);
  });

  it("keeps f32 products where the model wants them", async () => {
    const fake = new Fake(({ products }) => (products === "f32" ? 10 : 1));
    const { arithmetic } = await tune(gpu, { products: "f32" }, "auto", fake.parts);
    expect(arithmetic.products).toBe("f32");
  });

  it("is over after two seconds on a slow device", async () => {
    const fake = new Fake(({ lanes }) => (lanes === "shared" ? 40 : 90));
    const { ms } = await tune(gpu, kAny, "auto", fake.parts);
    expect(ms).toBeLessThanOrEqual(2000);
  });

  it("stores for the next time what it finds too late, where compilers are slow", async () => {
    const fake = new Fake(() => 1, 700);
    const first = await tune(gpu, kAny, "auto", fake.parts);
    expect(first).toMatchObject({ arithmetic: usual, how: "default" });
    await new Promise((resolve) => setTimeout(resolve, 0)); // the search comes to its end
    expect(fake.freed).toBe(1);
    expect(await tune(gpu, kAny, "auto", fake.parts)).toMatchObject({ how: "stored", ms: 0 });
    expect(fake.rigs).toBe(1);
  });

  it("keeps the default, and stores nothing, where the device hangs", async () => {
    const fake = new Fake(() => 1);
    let wake = (): void => undefined;
    const parts: TuneParts = {
      ...fake.parts,
      makeRig: () => ({
        warmUp: () => new Promise(() => wake()),
        sampleOf: () => Promise.resolve(null),
        free: () => undefined,
      }),
      sleep: () => new Promise((resolve) => (wake = resolve)),
    };
    expect(await tune(gpu, kAny, "auto", parts)).toMatchObject({ arithmetic: usual });
    expect(await fake.store.get(kKey)).toBeNull();
  });

  it("keeps the default where the device fails or refuses every other kernel", async () => {
    const failing = new Fake(() => {
      throw new Error("lost");
    });
    expect(await tune(gpu, kAny, "auto", failing.parts)).toMatchObject({ arithmetic: usual });
    expect(failing.freed).toBe(1);
    const refusing = new Fake((own) => (JSON.stringify(own) === JSON.stringify(usual) ? 1 : -1));
    expect(await tune(gpu, kAny, "auto", refusing.parts)).toMatchObject({ arithmetic: usual });
  });

  it("is neither measured nor stored when off, forced or on a software adapter", async () => {
    const fake = new Fake(() => 1);
    const software = { ...gpu, isHardware: false, hasSubgroups: false };
    const own = await tune(software, kAny, "auto", fake.parts);
    expect(own.arithmetic.lanes).toBe("serial");
    expect((await tune(gpu, kAny, "off", fake.parts)).arithmetic).toEqual(usual);
    const forced = { ...usual, outputs: 8 };
    const got = await tune(gpu, kAny, forced, fake.parts);
    expect(got).toEqual({ arithmetic: forced, how: "forced", ms: 0 });
    expect(fake.rigs).toBe(0);
  });

  it.each([
    "",
    "{",
    "null",
    "7",
    '{"products":"int16"}',
    JSON.stringify({ ...usual, outputs: 24 }),
    JSON.stringify({ ...usual, lanes: "quantum" }),
    JSON.stringify({ ...usual, products: ["int16"] }),
  ])("measures anew where the store gives %s", async (text) => {
    const fake = new Fake(() => 1);
    await fake.store.set(kKey, text);
    expect((await tune(gpu, kAny, "auto", fake.parts)).how).toBe("measured");
    expect(JSON.parse((await fake.store.get(kKey))!)).toEqual(usual);
  });

  it("does without a store that fails", async () => {
    const fake = new Fake(() => 1);
    const store = {
      get: () => Promise.reject(new Error("no storage")),
      set: () => Promise.reject(new Error("full")),
    };
    expect((await tune(gpu, kAny, "auto", { ...fake.parts, store })).how).toBe("measured");
  });
});

describe("candidates", () => {
  it("are those that the device has", () => {
    const poor = { ...gpu, hasSubgroups: false, hasIntegerDots: false, hasF16: false };
    const only = defaultArithmetic(poor, kAny);
    expect(only).toMatchObject({ products: "f32", lanes: "shared" });
    const all = stagesOf(poor, kAny).flatMap(({ from }) => from(only));
    expect(all.every((one) => one.products === "f32" && one.lanes !== "subgroups")).toBe(true);
    expect(isCandidate(poor, kAny, usual)).toBe(false);
  });

  it("another text is another hash, and a store's choice is looked at", () => {
    expect(hashOf("ab", "c")).not.toBe(hashOf("a", "bc"));
    expect(readChoice(JSON.stringify(usual), () => false)).toBeNull();
  });
});
