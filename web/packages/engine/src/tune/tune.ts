// How a device's products are computed: forced, known from the last time, or measured here within
// two seconds, or ten where matrix units are tried. Software adapters are not measured; what goes
// wrong leaves the default.
import type { Arithmetic } from "../kernels/product/arithmetic.ts";
import { kFewUnitsFrom } from "../kernels/product/variants.ts";
import type { Gpu } from "../gpu/open.ts";
import { defaultArithmetic, isCandidate, stagesOf } from "./candidates.ts";
import type { RigForm, Stage, Wish } from "./candidates.ts";
import { compare } from "./compare.ts";
import type { Sample } from "./compare.ts";
import { readChoice, writeChoice } from "./store.ts";
import type { TuneStore } from "./store.ts";

// "off": the default of the device.
export type Tuning = "auto" | "off" | Arithmetic;

export interface Tuned {
  readonly arithmetic: Arithmetic;
  readonly how: "forced" | "default" | "stored" | "measured";
  readonly ms: number; // that it took
}

// What is timed, on one device.
export interface Rig {
  // Keeps the device busy, so that its clock is up.
  warmUp(arithmetic: Arithmetic, ms: number): Promise<void>;
  // Times a step of `rows` rows; null where the device refuses the kernel, or where matrix units
  // give other bits than products without them.
  sampleOf(arithmetic: Arithmetic, rows: number, form: RigForm): Promise<Sample | null>;
  free(): void;
}

export interface TuneParts {
  readonly store: TuneStore;
  readonly key: string; // of the device, its driver and the kernels
  readonly makeRig: () => Rig;
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<void>;
}

const kBudgetMs = 2000;
// Where matrix units are tried. The first time a driver compiles their kernels for seconds; later
// all takes 1.5 s.
const kUnitsBudgetMs = 10_000;
const kReserveMs = 100; // of the budget, for what runs when the time is up
const kWarmUpMs = 300; // what an idle discrete GPU takes to raise its clock

export async function tune(
  gpu: Gpu,
  wish: Wish,
  tuning: Tuning,
  parts: TuneParts,
): Promise<Tuned> {
  if (typeof tuning === "object") return { arithmetic: tuning, how: "forced", ms: 0 };
  const usual = defaultArithmetic(gpu, wish);
  const whatever: Tuned = { arithmetic: usual, how: "default", ms: 0 };
  if (tuning === "off" || !gpu.isHardware) return whatever;
  const begin = parts.now();
  const text = await parts.store.get(parts.key).catch(() => null);
  const known = readChoice(text, (choice) => isCandidate(gpu, wish, choice));
  if (known) return { arithmetic: known, how: "stored", ms: parts.now() - begin };
  const budgetMs = gpu.hasMatrixUnits ? kUnitsBudgetMs : kBudgetMs;
  const search = new Search(gpu, wish, usual, parts, begin + budgetMs - kReserveMs);
  const late = parts.sleep(budgetMs).then(() => "late" as const);
  const ended = search.run().catch(() => "failed" as const);
  // Where compilers are slow, the time is up in the middle of a stage: what was found by then comes
  // too late for this engine, and is known to the next one.
  const kept = ended.then(async (end) => {
    if (end !== "done") return;
    await parts.store.set(parts.key, writeChoice(search.best)).catch(() => undefined);
  });
  const end = await Promise.race([ended, late]);
  const ms = parts.now() - begin;
  if (end !== "done") return { ...whatever, ms };
  await kept;
  return { arithmetic: search.best, how: "measured", ms };
}

class Search {
  best: Arithmetic;
  readonly #gpu: Gpu;
  readonly #wish: Wish;
  readonly #parts: TuneParts;
  readonly #deadline: number;

  constructor(gpu: Gpu, wish: Wish, usual: Arithmetic, parts: TuneParts, deadline: number) {
    this.best = usual;
    this.#gpu = gpu;
    this.#wish = wish;
    this.#parts = parts;
    this.#deadline = deadline;
  }

  async run(): Promise<"done"> {
    const rig = this.#parts.makeRig();
    try {
      await rig.warmUp(this.best, kWarmUpMs);
      const stages = stagesOf(this.#gpu, this.#wish);
      for (const [index, stage] of stages.entries()) {
        const share = (this.#deadline - this.#parts.now()) / (stages.length - index);
        if (share <= 0) break;
        await this.#decide(rig, stage, this.#parts.now() + share);
      }
    } finally {
      rig.free();
    }
    return "done";
  }

  async #decide(
    rig: Rig,
    { rows, form, from }: Stage,
    deadline: number,
  ): Promise<void> {
    const others = from(this.best);
    if (others.length === 0) return;
    const base = await rig.sampleOf(this.best, rows, form);
    if (!base) return;
    const samples = await Promise.all(others.map((other) => rig.sampleOf(other, rows, form)));
    const there = others
      .map((arithmetic, index) => ({ arithmetic, sample: samples[index] ?? null }))
      .filter((entry): entry is { arithmetic: Arithmetic; sample: Sample } => !!entry.sample);
    const timed = [base, ...there.map(({ sample }) => sample)];
    const { best } = await compare(timed, this.#parts.now, deadline);
    if (best > 0) this.best = there[best - 1]!.arithmetic;
  }
}

// "int16, lanes by subgroups, 16 outputs, tiles of 4; measured in 812 ms": for people.
export function tunedText({ arithmetic, how, ms }: Tuned): string {
  const { products, lanes, outputs, tileRows, units = false, fewUnits = false } = arithmetic;
  const { rowWalk = "quarters" } = arithmetic;
  const shape =
    lanes === "serial"
      ? `${products}, lanes one after another`
      : `${products}, lanes by ${kLaneText[lanes]}, ${outputs} outputs, tiles of ${tileRows}`;
  const rows = fewUnits ? ` from ${kFewUnitsFrom} rows` : "";
  const walk = kWalkText[rowWalk];
  const what = units ? `${shape}${walk}, matrix units${rows}` : `${shape}${walk}`;
  return how === "measured" ? `${what}; measured in ${Math.round(ms)} ms` : `${what}; ${how}`;
}

const kWalkText = {
  quarters: "",
  blocks: ", a block a thread",
  wide: ", a block a thread of 512",
} as const;
const kLaneText = { subgroups: "subgroups", shared: "workgroup memory" } as const;
