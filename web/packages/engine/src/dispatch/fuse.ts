// Fusion: a program's operations to as few dispatches as the kernels allow. A dense
// layer becomes [norm + q, k, v] [heads + append] [attention] [o + residual]
// [norm + gate, up + activation] [down + residual].
//
// A result that only the fused kernel reads is never written. Exchanges are barriers: nothing is
// fused across one. What can be fused stands side by side in the order that schedule.ts makes.
import { headRuns, isOneSegment } from "./headRuns.ts";
import type { HeadRun } from "./headRuns.ts";
import { areAlike, kMaxSegments } from "./schedule.ts";
import { overlap, readsOf, same, writtenBy } from "../program/ir.ts";
import type {
  Attention,
  GatedActivation,
  MatMul,
  Op,
  Program,
  QkNormRope,
  RmsNorm,
  View,
} from "../program/ir.ts";

export interface Product {
  readonly kind: "product";
  readonly matmuls: readonly MatMul[]; // one input, one matrix; paired: gate, up
  readonly norm: RmsNorm | null; // made on the way in
  readonly paired: GatedActivation | null;
  readonly residual: View | null; // added to the result of the only product
  readonly outs: readonly View[]; // of each product; paired: one
  readonly heads: HeadRun | null; // all products, where each head is multiplied by itself
}

export interface Heads {
  readonly kind: "heads";
  readonly parts: readonly HeadsPart[];
  readonly attention: Attention | null; // its keys and values are appended
}

export interface HeadsPart {
  readonly rope: QkNormRope | null; // null: as it is
  readonly input: View;
  readonly out: View;
  readonly heads: number;
  readonly headColumns: number;
  readonly goesTo: "out" | "keys" | "values";
}

export interface Single {
  readonly kind: "single";
  readonly op: Exclude<Op, MatMul | QkNormRope>;
}

export type Fused = Product | Heads | Single;

// Those of heads that share their input are one segment.
function segmentsOf(run: HeadRun): number {
  return isOneSegment(run) ? 1 : run.matmuls.length;
}

// How many of the products from the first on fit: whole runs, or a part of the first one.
function fitting(matmuls: readonly MatMul[]): number {
  let count = 0;
  let left = kMaxSegments;
  for (const run of headRuns(matmuls)) {
    left -= segmentsOf(run);
    if (left < 0) return count > 0 ? count : kMaxSegments;
    count += run.matmuls.length;
  }
  return count;
}

export function fuse(program: Program): Fused[] {
  return new Fuser(program).run();
}

class Fuser {
  readonly #program: Program;
  readonly #ops: readonly Op[];
  readonly #fused: Fused[] = [];

  constructor(program: Program) {
    this.#program = program;
    this.#ops = program.ops;
  }

  run(): Fused[] {
    let at = 0;
    while (at < this.#ops.length) at = this.#fuseFrom(at);
    return this.#fused;
  }

  // Emits what begins with operation `at`; returns where the next begins.
  #fuseFrom(at: number): number {
    const op = this.#ops[at]!;
    if (op.kind === "rmsNorm") {
      const end = this.#normedProducts(op, at);
      if (end > at) return end;
    }
    if (op.kind === "matmul") return this.#products(at, null);
    if (op.kind === "qkNormRope" || op.kind === "attention") return this.#heads(at);
    this.#fused.push({ kind: "single", op });
    return at + 1;
  }

  // Whether every reader of what operation `at` writes is among operations [at + 1, end).
  #readOnlyWithin(at: number, end: number): boolean {
    const view = writtenBy(this.#ops[at]!);
    for (let i = at + 1; i < this.#ops.length; ++i) {
      const op = this.#ops[i]!;
      if (i >= end && readsOf(op).some((read) => overlap(read, view))) return false;
      const written = writtenBy(op);
      const covers =
        written.buffer === view.buffer &&
        written.firstColumn <= view.firstColumn &&
        written.firstColumn + written.columns >= view.firstColumn + view.columns;
      if (covers) return true;
    }
    return view.buffer !== this.#program.output;
  }

  // End of the products from `at` on that share input and matrix format.
  #groupEnd(at: number): number {
    const first = this.#ops[at] as MatMul;
    let end = at + 1;
    while (end < this.#ops.length) {
      const next = this.#ops[end]!;
      if (next.kind !== "matmul" || !same(next.in, first.in)) break;
      const before = this.#ops.slice(at, end).map(writtenBy);
      const isApart = !before.some((out) => overlap(out, next.out));
      if (!isApart || !areAlike(this.#program, first, next)) break;
      ++end;
    }
    return at + fitting(this.#ops.slice(at, end) as MatMul[]);
  }

  // The products behind a norm that are its only readers: each of their dispatches makes it on the
  // way in, so that nothing may be written where it comes from.
  #normedProducts(norm: RmsNorm, at: number): number {
    const isOfRows = this.#program.weights[norm.weight]!.shape.length === 1;
    if (!isOfRows || same(norm.in, norm.out)) return at;
    const before = this.#fused.length;
    let end = at + 1;
    for (let op = this.#ops[end]; op?.kind === "matmul" && same(op.in, norm.out);) {
      if (this.#headsFrom(end)) break;
      end = this.#products(end, norm);
      op = this.#ops[end];
    }
    const outs = this.#ops.slice(at + 1, end).map(writtenBy);
    const isDisjoint = !outs.some((out) => overlap(out, norm.in));
    if (end > at + 1 && isDisjoint && this.#readOnlyWithin(at, end)) return end;
    this.#fused.length = before;
    return at;
  }

  // Products from `at` on that each take a head of the input, or are too many for one matrix; null
  // where there are none. All inputs are read before anything is written.
  #headsFrom(at: number): HeadRun | null {
    let end = at;
    while (this.#ops[end]?.kind === "matmul") ++end;
    const run = headRuns(this.#ops.slice(at, end) as MatMul[])[0]!;
    const isOther = run.inStep !== 0 || segmentsOf(run) > kMaxSegments;
    if (run.matmuls.length === 1 || !isOther) return null;
    const outs = run.matmuls.map((matmul) => matmul.out);
    const isApart = run.matmuls.every((matmul) => !outs.some((out) => overlap(out, matmul.in)));
    return isApart ? run : null;
  }

  #products(at: number, norm: RmsNorm | null): number {
    const heads = norm ? null : this.#headsFrom(at);
    const end = heads ? at + heads.matmuls.length : this.#groupEnd(at);
    const matmuls = this.#ops.slice(at, end) as MatMul[];
    const base = { kind: "product", matmuls, norm, paired: null, residual: null, heads } as const;
    const next = this.#ops[end];
    const input = norm?.in ?? matmuls[0]!.in;
    if (next?.kind === "gatedActivation" && this.#pairs(matmuls, next, at, end, input)) {
      const gateFirst = same(matmuls[0]!.out, next.gate);
      const ordered = gateFirst ? matmuls : [...matmuls].reverse();
      this.#fused.push({ ...base, matmuls: ordered, paired: next, outs: [next.out] });
      return end + 1;
    }
    if (next?.kind === "add" && matmuls.length === 1) {
      const [{ out }] = matmuls as [MatMul];
      const isFirst = same(next.a, out);
      const residual = isFirst ? next.b : next.a;
      const fits = (isFirst || same(next.b, out)) && !overlap(residual, out);
      const isDisjoint = !overlap(next.out, input) && this.#readOnlyWithin(at, end + 1);
      if (fits && isDisjoint) {
        this.#fused.push({ ...base, residual, outs: [next.out] });
        return end + 1;
      }
    }
    this.#fused.push({ ...base, outs: matmuls.map((matmul) => matmul.out) });
    return end;
  }

  #pairs(
    matmuls: readonly MatMul[],
    gated: GatedActivation,
    at: number,
    end: number,
    input: View,
  ): boolean {
    const [a, b] = matmuls;
    if (matmuls.length !== 2 || !a || !b || a.out.columns !== b.out.columns) return false;
    const inOrder = same(a.out, gated.gate) && same(b.out, gated.up);
    const swapped = same(b.out, gated.gate) && same(a.out, gated.up);
    const isDisjoint = !overlap(gated.out, input);
    // The result may go over one of the two: that one's other readers would be refused here.
    const isPrivate = [at, at + 1].every((index) => this.#readOnlyWithin(index, end + 1));
    return (inOrder || swapped) && isDisjoint && isPrivate;
  }

  // Rotations up to an attention together with the appending of its keys and values; one that
  // attends to another layer's appends nothing.
  #heads(at: number): number {
    let end = at;
    while (this.#ops[end]?.kind === "qkNormRope") ++end;
    const attention = this.#ops[end];
    const ropes = this.#ops.slice(at, end) as QkNormRope[];
    if (attention?.kind !== "attention" || attention.kvLayer !== null) {
      for (const rope of ropes) this.#loneRope(rope);
      if (attention?.kind !== "attention") return end;
      this.#fused.push({ kind: "single", op: attention });
      return end + 1;
    }
    const ofQ = ropes.find((rope) => same(rope.out, attention.q)) ?? null;
    const ofK = ropes.find((rope) => same(rope.out, attention.k)) ?? null;
    const ofV = ropes.find((rope) => same(rope.out, attention.v)) ?? null;
    const isKept = (rope: QkNormRope): boolean =>
      (rope === ofK || rope === ofV) &&
      rope.headColumns === attention.headColumns &&
      this.#readOnlyWithin(this.#ops.indexOf(rope), end + 1);
    // All heads are read before any is written, so the fused ones must not depend on each other.
    const fitting = ropes.filter((rope) => rope === ofQ || isKept(rope));
    const independent = fitting.every((rope) =>
      ropes.every((other) => other === rope || !overlap(other.out, rope.in)),
    );
    const fused = independent ? fitting : [];
    for (const rope of ropes) if (!fused.includes(rope)) this.#loneRope(rope);
    this.#fused.push(appending(attention, fused, [ofQ, ofK, ofV]));
    this.#fused.push({ kind: "single", op: attention });
    return end + 1;
  }

  #loneRope(rope: QkNormRope): void {
    this.#fused.push({ kind: "heads", parts: [ropePart(rope, "out")], attention: null });
  }
}

function ropePart(rope: QkNormRope, goesTo: HeadsPart["goesTo"]): HeadsPart {
  const { heads, headColumns } = rope;
  return { rope, input: rope.in, out: rope.out, heads, headColumns, goesTo };
}

function appending(
  attention: Attention,
  fused: readonly QkNormRope[],
  [ofQ, ofK, ofV]: readonly (QkNormRope | null)[],
): Heads {
  const { k, v, kvHeads: heads, headColumns } = attention;
  const plain = { rope: null, heads, headColumns };
  const isFused = (rope: QkNormRope | null | undefined): rope is QkNormRope =>
    rope !== null && rope !== undefined && fused.includes(rope);
  const parts: HeadsPart[] = [];
  if (isFused(ofQ)) parts.push(ropePart(ofQ, "out"));
  const keys = { ...plain, input: k, out: k, goesTo: "keys" } as const;
  parts.push(isFused(ofK) ? ropePart(ofK, "keys") : keys);
  // Values that lie in keys are appended with them.
  if (attention.valueColumns === 0) {
    const values = { ...plain, input: v, out: v, goesTo: "values" } as const;
    parts.push(isFused(ofV) ? ropePart(ofV, "values") : values);
  }
  return { kind: "heads", parts, attention };
}
