// The order that fusion wants gives every operation the values that it had: programs are computed
// with symbols, a column a symbol, before and after. And it brings together what belongs together.
import { describe, expect, it } from "vitest";

import { decodeProgram } from "../program/decode.ts";
import { DType, readsOf, stateFloatsOf, writtenBy } from "../program/ir.ts";
import type { Attention, MatMul, Op, Program, View } from "../program/ir.ts";
import { kShapes, RandomModel } from "../test/randomModel.ts";
import { fuse } from "./fuse.ts";
import { scheduled } from "./schedule.ts";

const kNoView: View = { buffer: 0, firstColumn: 0, columns: 0 };

// What an operation computes but for where its values lie: all of its numbers.
function meaningOf(op: Op): string {
  return JSON.stringify(op, (_, value: unknown) =>
    typeof value === "object" && value !== null && "firstColumn" in value ? null : value);
}

// One number for each text: equal ones are equal symbols, in all programs.
const symbols = new Map<string, number>();

function symbol(text: string): number {
  const known = symbols.get(text) ?? symbols.size;
  symbols.set(text, known);
  return known;
}

// What the output holds at last, and what is carried or exchanged on the way, as symbols.
function computed({ buffers, ops, weights, input, output }: Program): unknown {
  const held = buffers.map(({ columns }, id) =>
    Array.from({ length: columns }, (_, column) =>
      symbol(id === input ? `input ${column}` : "nothing"),
    ),
  );
  const kept: number[] = [];
  for (const op of ops) {
    const inputs = readsOf(op).map(({ buffer, firstColumn, columns }) =>
      held[buffer]!.slice(firstColumn, firstColumn + columns),
    );
    const text = `${meaningOf(op)} ${JSON.stringify(inputs)}`;
    const hasEffect = op.kind === "exchange" || op.kind === "attention";
    if (hasEffect || stateFloatsOf({ weights }, op) > 0) kept.push(symbol(text));
    const { buffer, firstColumn, columns } = writtenBy(op);
    for (let i = 0; i < columns; ++i) {
      held[buffer]![firstColumn + i] = symbol(`${text} ${i}`);
    }
  }
  return { kept, out: held[output] };
}

// A sequence of whole numbers that looks random.
function chooser(seed: number): (end: number) => number {
  let state = seed;
  return (end) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state >>> 8) % end;
  };
}

const kColumns = 4;

// Some operations over few buffers, which are read and written over in every way.
function randomProgram(seed: number): Program {
  const choose = chooser(seed);
  const view = (): View => ({ buffer: choose(5), firstColumn: 0, columns: kColumns });
  const half = (): View => ({ buffer: choose(5), firstColumn: 2 * choose(2), columns: 2 });
  const weights = [DType.q4, DType.f16].map((dtype, id) => ({
    name: `w${id}`, dtype, shape: [kColumns, kColumns], data: [], scale: [], zero: [],
  }));
  const norm = { name: "n", dtype: DType.f32, shape: [kColumns], data: [], scale: [], zero: [] };
  const product = (): MatMul => {
    const weight = { weight: choose(2), firstRow: 0, rows: kColumns };
    return { kind: "matmul", in: view(), out: view(), weight, bias: null, ranges: 0 };
  };
  const turn = (): Op => ({
    kind: "qkNormRope", in: view(), out: view(), heads: 2, headColumns: 2, normWeight: null,
    epsilon: 0, rope: null,
  });
  const of: (() => Op)[] = [
    product,
    product,
    product,
    () => ({ kind: "rmsNorm", in: view(), out: view(), weight: 2, epsilon: 1e-5 }),
    () => ({ kind: "add", a: view(), b: view(), out: view() }),
    () => ({ kind: "scale", in: half(), out: half(), factor: 2 }),
    () => ({ kind: "gatedActivation", gate: view(), up: view(), out: view(), activation: 0 }),
    turn,
    () => ({ kind: "exchange", out: view(), in: view(), id: choose(9) }),
    () => ({ kind: "causalConv", in: view(), out: view(), weight: 0, bias: null, silu: true }),
  ];
  const ops = Array.from({ length: 6 + choose(12) }, () => of[choose(of.length)]!());
  const attention: Attention = {
    kind: "attention", q: view(), k: view(), v: view(), out: view(), heads: 2, kvHeads: 2,
    headColumns: 2, scale: 1, window: 0, softcap: 0, sinks: null, valueColumns: 0, kvLayer: null,
  };
  ops.splice(choose(ops.length), 0, attention);
  const buffers = Array.from({ length: 5 }, (_, id) => ({ name: `b${id}`, columns: kColumns }));
  return {
    layerIndex: 1, buffers, weights: [...weights, norm], ops, input: 0, output: choose(5),
  };
}

const model = new RandomModel(kShapes["tiny"]!);
const dense = decodeProgram(await model.readBlob("program 1"));

// As converters write it: each projection with what follows it.
function interleaved(): Program {
  const [norm, q, k, v, turnQ, turnK, ...rest] = dense.ops as [Op, Op, Op, Op, Op, Op, ...Op[]];
  return { ...dense, ops: [norm, q, turnQ, k, turnK, v, ...rest] };
}

const words = (program: Program): string[] =>
  fuse(program).map((step) => (step.kind === "single" ? step.op.kind : step.kind));

describe("the order of operations", () => {
  it("gives what the program gives, with random ones", () => {
    let moved = 0;
    let more = 0;
    for (let seed = 1; seed <= 2000; ++seed) {
      const program = randomProgram(seed);
      const made = scheduled(program);
      expect(computed(made), `program ${seed}`).toEqual(computed(program));
      const meanings = (ops: readonly Op[]): string[] => ops.map(meaningOf);
      if (JSON.stringify(meanings(made.ops)) !== JSON.stringify(meanings(program.ops))) ++moved;
      if (made.buffers.length > program.buffers.length) ++more;
    }
    expect(moved).toBeGreaterThan(200); // the seeds reach what they are about
    expect(more).toBeGreaterThan(1000);
  });

  it("brings the products of one input and the rotations together", () => {
    const program = interleaved();
    expect(words(program).length).toBeGreaterThan(6);
    expect(words(scheduled(program))).toEqual(words(dense));
    expect(words(dense).length).toBe(6);
    expect(computed(scheduled(program))).toEqual(computed(program));
  });

  it("does not care that buffers are used again", () => {
    // The gate's product goes where the query was, as soon as attention has read it.
    const [norm, q, k, v, , , attention] = dense.ops as MatMul[];
    const { out } = q!;
    const gate: MatMul = { ...q!, out };
    const gated: Op = { kind: "gate", in: writtenBy(attention!), gate: out, out, gateKind: 1 };
    const o: MatMul = { ...(dense.ops[7] as MatMul), in: out };
    const ops: Op[] = [norm!, q!, k!, v!, attention!, gate, gated, o, ...dense.ops.slice(8)];
    const program = { ...dense, ops };
    expect(words(program).slice(0, 2)).toEqual(["normed", "product"]);
    const [first, ...others] = fuse(scheduled(program));
    expect(first).toMatchObject({ kind: "product", norm: { kind: "rmsNorm" } });
    expect((first as unknown as { matmuls: MatMul[] }).matmuls.length).toBe(4);
    expect(others.map(({ kind }) => kind).filter((kind) => kind === "product").length).toBe(3);
  });

  it("lets every product make the norm where weights of two forms read it", () => {
    const [norm, q, k, v] = dense.ops as MatMul[];
    const narrow = { ...dense.weights[2]!, dtype: DType.f16, scale: [] };
    const weights = [...dense.weights, narrow];
    const [, beside] = [kNoView, { ...k!.weight, weight: weights.length - 1 }];
    const ops: Op[] = [norm!, q!, { ...k!, weight: beside }, v!, ...dense.ops.slice(4)];
    const steps = fuse(scheduled({ ...dense, weights, ops }));
    expect(steps.slice(0, 2)).toMatchObject([
      { kind: "product", norm: { kind: "rmsNorm" }, outs: [q!.out, v!.out] },
      { kind: "product", norm: { kind: "rmsNorm" }, outs: [k!.out] },
    ]);
  });
});
