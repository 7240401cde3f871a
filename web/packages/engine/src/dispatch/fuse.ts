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
  Add,
  Attention,
  Gate,
  GatedActivation,
  LayerNorm,
  MatMul,
  MoeExperts,
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
  readonly gate: Gate | null; // of the result of the only product
  readonly residual: View | null; // added to it
  readonly factor: number; // of that sum
  readonly residual2: View | null; // added at last
  readonly outs: readonly View[]; // of each product; paired: one
  readonly heads: HeadRun | null; // all products, where each head is multiplied by itself
}

export interface Heads {
  readonly kind: "heads";
  readonly parts: readonly HeadsPart[];
  readonly attention: Attention | null; // its keys and values are appended
  readonly gated: GatedActivation | null; // of the heads of the only part
}

export interface HeadsPart {
  readonly rope: QkNormRope | null; // null: as it is
  readonly input: View;
  readonly out: View;
  readonly heads: number;
  readonly headColumns: number;
  readonly goesTo: "out" | "keys" | "values";
  readonly norm: RmsNorm | null; // of a latent key's last columns, in front of the rotation
}

// Attention, and the gate that its result goes through.
export interface Attending {
  readonly kind: "attention";
  readonly op: Attention;
  readonly gate: Gate | null;
  readonly out: View;
}

// A norm, what it is added to, and what the sum is multiplied by.
export interface Normed {
  readonly kind: "normed";
  readonly op: RmsNorm | LayerNorm;
  readonly residual: View | null;
  readonly factor: number;
  readonly out: View;
}

// Experts, and what their sum is added to.
export interface Experts {
  readonly kind: "experts";
  readonly op: MoeExperts;
  readonly residual: View | null;
  readonly out: View;
}

export interface Single {
  readonly kind: "single";
  readonly op: Exclude<Op, MatMul | QkNormRope | Attention | RmsNorm | LayerNorm | MoeExperts>;
}

export type Fused = Product | Heads | Attending | Normed | Experts | Single;

type Finish = Pick<Product, "gate" | "residual" | "factor" | "residual2">;

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
    if (op.kind === "rmsNorm" && this.#isOfKey(op, at)) return this.#heads(at + 1, op);
    if (op.kind === "rmsNorm" || op.kind === "layerNorm") return this.#normed(op, at);
    if (op.kind === "matmul") return this.#products(at, null);
    if (op.kind === "moeExperts") return this.#experts(op, at);
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

  #normed(op: RmsNorm | LayerNorm, at: number): number {
    let end = at + 1;
    let { out } = op;
    // A thread writes where another one still reads, unless it is the same place.
    const fits = (next: View): boolean => !overlap(next, op.in) || same(next, op.in);
    const sum = this.#sumWith(out, at, end);
    if (sum && fits(sum.op.out)) {
      ({ out } = sum.op);
      ++end;
    }
    const residual = sum && end > at + 1 ? sum.residual : null;
    const next = this.#ops[end];
    const isScaled =
      residual !== null &&
      next?.kind === "scale" &&
      same(next.in, out) &&
      fits(next.out) &&
      this.#readOnlyWithin(end - 1, end + 1);
    if (isScaled) {
      ({ out } = next);
      ++end;
    }
    this.#fused.push({ kind: "normed", op, residual, factor: isScaled ? next.factor : 1, out });
    return end;
  }

  #experts(op: MoeExperts, at: number): number {
    const sum = this.#sumWith(op.out, at, at + 1);
    const reads = [op.in, op.route];
    const fits = sum !== null && !reads.some((view) => overlap(view, sum.op.out));
    const [residual, out] = fits ? [sum.residual, sum.op.out] : [null, op.out];
    this.#fused.push({ kind: "experts", op, residual, out });
    return fits ? at + 2 : at + 1;
  }

  // The sum at `end` of the result `out` of operation `from`, which nothing else reads, and another
  // view; null where there is none.
  #sumWith(out: View, from: number, end: number): { op: Add; residual: View } | null {
    const op = this.#ops[end];
    if (op?.kind !== "add") return null;
    const isFirst = same(op.a, out);
    const residual = isFirst ? op.b : op.a;
    // A thread writes where no other one reads.
    const isOwn = !overlap(residual, op.out) || same(residual, op.out);
    const fits = (isFirst || same(op.b, out)) && !overlap(residual, out) && isOwn;
    return fits && this.#readOnlyWithin(from, end + 1) ? { op, residual } : null;
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
    const none = { paired: null, gate: null, residual: null, factor: 1, residual2: null };
    const base = { kind: "product", matmuls, norm, heads, ...none } as const;
    const next = this.#ops[end];
    const input = norm?.in ?? matmuls[0]!.in;
    if (next?.kind === "gatedActivation" && this.#pairs(matmuls, next, at, end, input)) {
      const gateFirst = same(matmuls[0]!.out, next.gate);
      const ordered = gateFirst ? matmuls : [...matmuls].reverse();
      this.#fused.push({ ...base, matmuls: ordered, paired: next, outs: [next.out] });
      return end + 1;
    }
    if (matmuls.length > 1) {
      this.#fused.push({ ...base, outs: matmuls.map((matmul) => matmul.out) });
      return end;
    }
    const [{ out }] = matmuls as [MatMul];
    const behind = this.#behind(out, at, input);
    this.#fused.push({ ...base, ...behind.finish, outs: [behind.out] });
    return end + behind.count;
  }

  // What becomes of the result `out` of operation `at` right behind it: it goes through a gate, is
  // added to another one, multiplied, added to a third one. Nothing goes over `input`, which other
  // threads still read, nor over what is read on the way.
  #behind(out: View, at: number, input: View): { out: View; count: number; finish: Finish } {
    let last = out;
    let end = at + 1;
    const reads = [input];
    const sum = (): View | null => {
      const found = this.#sumWith(last, end - 1, end);
      if (!found || reads.some((view) => overlap(view, found.op.out))) return null;
      reads.push(found.residual);
      last = found.op.out;
      ++end;
      return found.residual;
    };
    const next = this.#ops[end];
    const gate = next?.kind === "gate" && this.#gates(next, last, at, input) ? next : null;
    if (gate) {
      reads.push(gate.gate);
      last = gate.out;
      ++end;
    }
    const residual = sum();
    const scale = this.#ops[end];
    const isScaled =
      scale?.kind === "scale" &&
      same(scale.in, last) &&
      !reads.some((view) => overlap(view, scale.out)) &&
      this.#readOnlyWithin(end - 1, end + 1);
    if (isScaled) {
      last = scale.out;
      ++end;
    }
    const residual2 = sum();
    const finish = { gate, residual, factor: isScaled ? scale.factor : 1, residual2 };
    return { out: last, count: end - at - 1, finish };
  }

  #gates(op: Gate, out: View, at: number, input: View): boolean {
    const isApart = !overlap(op.gate, out) && !overlap(op.out, op.gate) && !overlap(op.out, input);
    return same(op.in, out) && isApart && this.#readOnlyWithin(at, at + 2);
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

  // Whether a norm in place is that of the last columns of a latent key: rotations follow, then the
  // attention whose key one of them makes.
  #isOfKey(norm: RmsNorm, at: number): boolean {
    let end = at + 1;
    while (this.#ops[end]?.kind === "qkNormRope") ++end;
    const attention = this.#ops[end];
    if (attention?.kind !== "attention" || attention.kvLayer !== null) return false;
    const { k, valueColumns, headColumns } = attention;
    const turn = this.#ops.slice(at + 1, end).find((op) => same(writtenBy(op), k));
    if (valueColumns === 0 || turn?.kind !== "qkNormRope" || turn.heads !== 1) return false;
    const lastColumn = norm.in.firstColumn + norm.in.columns;
    const isLast =
      norm.in.buffer === turn.in.buffer &&
      norm.in.firstColumn >= turn.in.firstColumn &&
      lastColumn === turn.in.firstColumn + headColumns;
    const isOfRow = this.#program.weights[norm.weight]!.shape.length === 1;
    return isLast && isOfRow && same(norm.in, norm.out) && turn.normWeight === null &&
      this.#readOnlyWithin(at, end);
  }

  // Rotations up to an attention together with the appending of its keys and values; one that
  // attends to another layer's appends nothing.
  #heads(at: number, keyNorm: RmsNorm | null = null): number {
    let end = at;
    while (this.#ops[end]?.kind === "qkNormRope") ++end;
    const attention = this.#ops[end];
    const ropes = this.#ops.slice(at, end) as QkNormRope[];
    if (attention?.kind !== "attention" || attention.kvLayer !== null) {
      const gated = this.#gatedHeads(ropes, at, end);
      if (gated) return end + 1;
      for (const rope of ropes) this.#loneRope(rope);
      return attention?.kind === "attention" ? this.#attention(attention, ropes, end) : end;
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
    const isOfPart = ofK !== null && fused.includes(ofK);
    if (keyNorm && !isOfPart) this.#normed(keyNorm, at - 1);
    for (const rope of ropes) if (!fused.includes(rope)) this.#loneRope(rope);
    const norm = isOfPart ? keyNorm : null;
    this.#fused.push(appending(attention, fused, [ofQ, ofK, ofV], norm));
    return this.#attention(attention, ropes, end);
  }

  // Attention at `at`, with the rotations before it, which a single row's makes by itself: what
  // these read is not to be written over.
  #attention(op: Attention, ropes: readonly QkNormRope[], at: number): number {
    const next = this.#ops[at + 1];
    const reads = [...readsOf(op), ...ropes.map((rope) => rope.in)];
    const isGated =
      next?.kind === "gate" &&
      this.#gates(next, op.out, at, op.q) &&
      !reads.some((view) => overlap(view, next.out));
    const [gate, out] = isGated ? [next, next.out] : [null, op.out];
    this.#fused.push({ kind: "attention", op, gate, out });
    return isGated ? at + 2 : at + 1;
  }

  // The heads of one operation together with the activation behind them that they go through. A
  // head's values are read before any is written, and no other head's are.
  #gatedHeads(ropes: readonly QkNormRope[], at: number, end: number): boolean {
    const [rope] = ropes;
    const next = this.#ops[end];
    if (ropes.length !== 1 || !rope || next?.kind !== "gatedActivation") return false;
    const isApart = !overlap(next.gate, rope.out) && !overlap(next.gate, next.out);
    const isInPlace = same(next.out, rope.in) || !overlap(next.out, rope.in);
    if (!same(next.up, rope.out) || !isApart || !isInPlace) return false;
    if (!this.#readOnlyWithin(at, end + 1)) return false;
    const parts = [{ ...ropePart(rope, "out"), out: next.out }];
    this.#fused.push({ kind: "heads", parts, attention: null, gated: next });
    return true;
  }

  #loneRope(rope: QkNormRope): void {
    const parts = [ropePart(rope, "out")];
    this.#fused.push({ kind: "heads", parts, attention: null, gated: null });
  }
}

function ropePart(rope: QkNormRope, goesTo: HeadsPart["goesTo"]): HeadsPart {
  const { heads, headColumns } = rope;
  return { rope, input: rope.in, out: rope.out, heads, headColumns, goesTo, norm: null };
}

function appending(
  attention: Attention,
  fused: readonly QkNormRope[],
  [ofQ, ofK, ofV]: readonly (QkNormRope | null)[],
  norm: RmsNorm | null,
): Heads {
  const { k, v, kvHeads: heads, headColumns } = attention;
  const plain = { rope: null, heads, headColumns, norm: null };
  const isFused = (rope: QkNormRope | null | undefined): rope is QkNormRope =>
    rope !== null && rope !== undefined && fused.includes(rope);
  const parts: HeadsPart[] = [];
  if (isFused(ofQ)) parts.push(ropePart(ofQ, "out"));
  const keys = { ...plain, input: k, out: k, goesTo: "keys" } as const;
  parts.push(isFused(ofK) ? { ...ropePart(ofK, "keys"), norm } : keys);
  // Values that lie in keys are appended with them.
  if (attention.valueColumns === 0) {
    const values = { ...plain, input: v, out: v, goesTo: "values" } as const;
    parts.push(isFused(ofV) ? ropePart(ofV, "values") : values);
  }
  return { kind: "heads", parts, attention, gated: null };
}
