// The order in which fusion (fuse.ts) wants a program's operations: products of one input side by
// side, rotations right in front of the attention that they are for. A converter writes them as a
// model computes them, one projection after the other:
//
//   norm, q, turn q, k, turn k, v, attention      ->   norm, q, k, v, turn q, turn k, attention
//
// Operations are moved past others that have nothing to do with them, so that every operation gets
// the same values. Nothing moves across an exchange, and recurrent state stays in its order.
import { overlap, readsOf, same, stateFloatsOf, writtenBy } from "../program/ir.ts";
import type { MatMul, Op, Program } from "../program/ir.ts";
import { withoutReuse } from "./versions.ts";

// Products that fit one matrix (fuse.ts) are moved together; more would be another matrix.
export const kMaxSegments = 4;

export function scheduled(program: Program): Program {
  const apart = withoutReuse(program);
  return { ...apart, ops: new Scheduler(apart).run() };
}

// Whether weights of the two are of one form, so that they may be rows of one matrix.
export function areAlike({ weights }: Program, a: MatMul, b: MatMul): boolean {
  const [first, second] = [weights[a.weight.weight]!, weights[b.weight.weight]!];
  return first.dtype === second.dtype && first.zero.length > 0 === second.zero.length > 0;
}

class Scheduler {
  readonly #program: Program;
  readonly #ops: Op[];

  constructor(program: Program) {
    this.#program = program;
    this.#ops = [...program.ops];
  }

  run(): Op[] {
    for (let at = 0; at < this.#ops.length; ++at) {
      const op = this.#ops[at]!;
      if (op.kind === "matmul" && !this.#isPaired(op)) this.#gather(at, op);
    }
    for (const op of [...this.#ops]) if (op.kind === "rmsNorm") this.#gatherReaders(op);
    for (const op of [...this.#ops]) if (op.kind === "attention") this.#lowerTurns(op);
    return this.#ops;
  }

  // Two operations that must stay in their order.
  #areBound(a: Op, b: Op): boolean {
    if (a.kind === "exchange" || b.kind === "exchange") return true;
    const hasState = (op: Op): boolean => stateFloatsOf(this.#program, op) > 0;
    if (hasState(a) && hasState(b)) return true;
    const [outA, outB] = [writtenBy(a), writtenBy(b)];
    return (
      overlap(outA, outB) ||
      readsOf(b).some((view) => overlap(view, outA)) ||
      readsOf(a).some((view) => overlap(view, outB))
    );
  }

  // Moves operation `from` up to `to`, where nothing between binds it. False: it stays.
  #raise(from: number, to: number): boolean {
    const op = this.#ops[from]!;
    for (let i = to; i < from; ++i) if (this.#areBound(this.#ops[i]!, op)) return false;
    this.#ops.splice(from, 1);
    this.#ops.splice(to, 0, op);
    return true;
  }

  // The product of a gate, or what it gates: they stay side by side with the activation.
  #isPaired(matmul: MatMul): boolean {
    return this.#ops.some(
      (op) =>
        op.kind === "gatedActivation" &&
        (same(op.gate, matmul.out) || same(op.up, matmul.out)) &&
        this.#isOfMatMul(op.gate, matmul) &&
        this.#isOfMatMul(op.up, matmul),
    );
  }

  // Whether a product with the same input makes the view.
  #isOfMatMul(view: MatMul["out"], { in: input }: MatMul): boolean {
    return this.#ops.some(
      (op) => op.kind === "matmul" && same(op.out, view) && same(op.in, input),
    );
  }

  // Brings products with the input of `first` and weights of its form to it, while they fit.
  #gather(at: number, first: MatMul): void {
    let end = at + 1;
    const isOfGroup = (op: Op | undefined): op is MatMul =>
      op?.kind === "matmul" &&
      same(op.in, first.in) &&
      areAlike(this.#program, first, op) &&
      !this.#isPaired(op);
    while (isOfGroup(this.#ops[end])) ++end;
    for (let from = end; from < this.#ops.length && end - at < kMaxSegments; ++from) {
      if (isOfGroup(this.#ops[from]) && this.#raise(from, end)) ++end;
    }
  }

  // Where products alone read a norm, each of them can make it on its way: they follow it.
  #gatherReaders(norm: Op): void {
    const out = writtenBy(norm);
    const isReader = (op: Op): boolean => readsOf(op).some((view) => overlap(view, out));
    const readers = this.#ops.filter(isReader);
    if (!readers.every((op) => op.kind === "matmul" && same(op.in, out))) return;
    let end = this.#ops.indexOf(norm) + 1;
    for (const reader of readers) {
      const from = this.#ops.indexOf(reader);
      if (from < end) continue;
      const activation = this.#activationBehind(from);
      if (!this.#raise(from, end)) return;
      ++end;
      if (activation && this.#raise(this.#ops.indexOf(activation), end)) ++end;
    }
  }

  // That of a gate and its up product, of which the second one is at `at`.
  #activationBehind(at: number): Op | null {
    const next = this.#ops[at + 1];
    const { out } = this.#ops[at] as MatMul;
    if (next?.kind !== "gatedActivation") return null;
    return same(next.gate, out) || same(next.up, out) ? next : null;
  }

  // Rotations of what it reads go down to the attention.
  #lowerTurns(attention: Op): void {
    const turns = this.#ops.filter(
      (op) => op.kind === "qkNormRope" && readsOf(attention).some((view) => same(view, op.out)),
    );
    for (const turn of turns.reverse()) {
      let at = this.#ops.indexOf(turn);
      for (; at + 1 < this.#ops.length; ++at) {
        const next = this.#ops[at + 1]!;
        if (next === attention || next.kind === "qkNormRope" || this.#areBound(turn, next)) break;
        this.#ops[at] = next;
        this.#ops[at + 1] = turn;
      }
    }
  }
}
