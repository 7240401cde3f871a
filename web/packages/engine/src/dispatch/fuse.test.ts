// Fusion: how few dispatches a dense layer takes, and when it must not fuse.
import { describe, expect, it } from "vitest";

import { decodeProgram } from "../program/decode.ts";
import type { MatMul, Op, Program } from "../program/ir.ts";
import { kShapes, RandomModel } from "../test/randomModel.ts";
import { fuse } from "./fuse.ts";
import { finisherOf, outputIsInput } from "./residual.ts";

const model = new RandomModel(kShapes["tiny"]!);
const qwen3 = decodeProgram(await model.readBlob("program 1"));

// Where the parts of a fused dispatch of heads go.
const destinations = (step: unknown): string[] =>
  (step as { parts: { goesTo: string }[] }).parts.map(({ goesTo }) => goesTo);

const words = (program: Program): string[] =>
  fuse(program).map((step) => (step.kind === "single" ? step.op.kind : step.kind));

function withOps(change: (ops: Op[]) => Op[]): Program {
  return { ...qwen3, ops: change([...qwen3.ops]) };
}

describe("fuse", () => {
  it("makes six dispatches of a dense Qwen3 layer", () => {
    expect(words(qwen3)).toEqual([
      "product", "heads", "attention", "product", "product", "product",
    ]);
    const [qkv, heads, , o, gateUp, down] = fuse(qwen3);
    expect(qkv).toMatchObject({ norm: { kind: "rmsNorm" }, paired: null, residual: null });
    expect((qkv as unknown as { matmuls: MatMul[] }).matmuls.length).toBe(3);
    expect(destinations(heads)).toEqual([
      "out", "keys", "values",
    ]);
    expect(o).toMatchObject({ norm: null, residual: { buffer: 0 }, residual2: null });
    expect(gateUp).toMatchObject({ norm: { kind: "rmsNorm" }, paired: { activation: 0 } });
    expect(down).toMatchObject({ residual: { buffer: 7 }, factor: 1 });
  });

  it("keeps a norm that something else reads too", () => {
    const program = withOps((ops) => {
      const last = ops.at(-1) as Extract<Op, { kind: "add" }>;
      const norm = ops[9] as Extract<Op, { kind: "rmsNorm" }>;
      return [...ops.slice(0, -1), { ...last, a: norm.out }];
    });
    expect(words(program)).toContain("normed");
  });

  it("keeps a product and the sum as two dispatches when its result is read again", () => {
    const program = withOps((ops) => {
      const o = ops[7] as MatMul;
      const gated = ops[12] as Extract<Op, { kind: "gatedActivation" }>;
      return [...ops.slice(0, 9), ...ops.slice(9, 12), gated, ops[13]!, {
        ...(ops[14] as Extract<Op, { kind: "add" }>), a: o.out,
      }];
    });
    expect(words(program)).toContain("add");
  });

  it("does not pair gate and up of unequal use", () => {
    const program = withOps((ops) => {
      const gated = ops[12] as Extract<Op, { kind: "gatedActivation" }>;
      return [...ops.slice(0, 12), { ...gated, up: gated.gate }, ...ops.slice(13)];
    });
    expect(words(program)).toContain("gatedActivation");
  });

  it("appends keys and values of an attention without rotation", () => {
    const program = withOps((ops) => ops.filter(({ kind }) => kind !== "qkNormRope"));
    const heads = fuse(program).find(({ kind }) => kind === "heads");
    expect(destinations(heads)).toEqual([
      "keys", "values",
    ]);
  });
});

describe("the residual stream", () => {
  it("stays in place and is rounded by the last product", () => {
    const fused = fuse(qwen3);
    expect(outputIsInput(qwen3, fused)).toBe(true);
    expect(finisherOf(qwen3, fused)).toBe(fused.length - 1);
  });

  it("gets a buffer of its own when the input is still read", () => {
    const program = withOps((ops) => {
      const last = ops.at(-1) as Extract<Op, { kind: "add" }>;
      // Another thread's element of it.
      const [first, second] = [0, 32].map((firstColumn) => ({ firstColumn, columns: 32 }));
      const views = { a: { ...last.out, ...first }, b: { buffer: 0, ...second! } };
      return [...ops, { kind: "add", ...views, out: { ...last.out, ...first } }];
    });
    expect(outputIsInput(program, fuse(program))).toBe(false);
  });
});
