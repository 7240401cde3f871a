// Programs as bytes: what is decoded, and what is refused.
import { describe, expect, it } from "vitest";

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";

import { MoeExpertsSchema, MoeRouteSchema } from "../../gen/program/ops_pb.ts";
import type { Op, RmsNorm } from "../../gen/program/ops_pb.ts";
import { PartSchema, ProgramSchema } from "../../gen/program/program_pb.ts";
import type { Program as PbProgram } from "../../gen/program/program_pb.ts";
import { EngineError } from "../base/error.ts";
import { kShapes, RandomModel } from "../test/randomModel.ts";
import { decodeProgram } from "./decode.ts";
import { DType } from "./ir.ts";

const model = new RandomModel(kShapes["tiny"]!);
const bytes = await model.readBlob("program 1");

// The layer's program after a change, decoded.
function changed(change: (program: PbProgram) => void): () => unknown {
  const program = fromBinary(ProgramSchema, bytes);
  change(program);
  return () => decodeProgram(toBinary(ProgramSchema, program));
}

// The fields of the first operation of a kind, for a test to spoil.
interface Fields {
  weight: number;
  in: { firstColumn: number };
  kvHeads: number;
  epsilon: number;
}

function op(program: PbProgram, kind: string): Fields {
  const found = program.ops.find(({ kind: { case: name } }) => name === kind);
  return found!.kind.value as unknown as Fields;
}

// Another weight for the first norm; `byteCounts` are of its data and, in blocks, of its scales.
function setNorm(
  program: PbProgram,
  dtype: number,
  shape: bigint[],
  byteCounts: readonly bigint[],
): void {
  const weight = program.weights[op(program, "rmsNorm").weight]!;
  const digest = new Uint8Array(32);
  const [data, scale] = byteCounts.map((byteCount) => [create(PartSchema, { digest, byteCount })]);
  Object.assign(weight, { dtype, shape, data, scale: scale ?? [] });
}

// Of two experts that read the layer's input, with the output of its norm.
function onGrid(program: PbProgram, gridStep: number, gridLimit: number): Op["kind"] {
  const norm = program.ops.find(({ kind }) => kind.case === "rmsNorm")!.kind.value as RmsNorm;
  const route = { ...norm.in!, columns: 2 };
  const given = { in: norm.in!, route, out: norm.out!, experts: 2, topK: 1, gridStep, gridLimit };
  return { case: "moeExperts", value: create(MoeExpertsSchema, given) };
}

// Two of 8 experts, in so many parts, of the columns of the norm's output.
function inParts(program: PbProgram, parts: number, columns: number, kind = 1): Op["kind"] {
  const norm = program.ops.find(({ kind: op }) => op.case === "rmsNorm")!.kind.value as RmsNorm;
  const [logits, out] = [{ ...norm.in!, columns: 8 }, { ...norm.out!, columns }];
  const given = { logits, out, experts: 8, topK: kind === 4 ? 8 : 2, kind, parts };
  return { case: "moeRoute", value: create(MoeRouteSchema, given) };
}

describe("decodeProgram", () => {
  it("reads a layer", () => {
    const program = decodeProgram(bytes);
    expect(program.layerIndex).toBe(1);
    expect(program.ops.map(({ kind }) => kind)).toEqual([
      "rmsNorm", "matmul", "matmul", "matmul", "qkNormRope", "qkNormRope", "attention", "matmul",
      "add", "rmsNorm", "matmul", "matmul", "gatedActivation", "matmul", "add",
    ]);
    expect(program.weights[1]!.shape).toEqual([64, 64]);
    expect(program.weights[1]!.data[0]!.digest).toMatch(/^01/);
  });

  const refusals: [string, (program: PbProgram) => void, string][] = [
    ["another version", (p) => void (p.version = 4), "this worker reads versions 1 to 3"],
    ["no operations", (p) => void (p.ops = []), "no operations"],
    ["an unknown operation", (p) => {
      p.ops[0]!.kind = { case: undefined };
    }, "is not known"],
    ["a grid whose steps are no power of two", (p) => {
      p.ops[0]!.kind = onGrid(p, 3, 8);
    }, "its grid has steps of 3, at most 8, not a power of two"],
    ["a grid of more steps than sums have room for", (p) => {
      p.ops[0]!.kind = onGrid(p, 0.5, 2 ** 23);
    }, "at most 8388608, not a power of two and a whole number up to 2^22"],
    ["a grid with a limit alone", (p) => {
      p.ops[0]!.kind = onGrid(p, 0, 8);
    }, "its grid has steps of 0, at most 8"],
    ["a route that lacks the parts of its experts", (p) => {
      p.ops[0]!.kind = inParts(p, 3, 4);
    }, "'out' has 4 columns"],
    ["more parts of experts than there may be", (p) => {
      p.ops[0]!.kind = inParts(p, 2 ** 14, 4);
    }, "expected at most 65536 parts in all"],
    ["parts of experts that are all taken", (p) => {
      p.ops[0]!.kind = inParts(p, 2, 32, 4);
    }, "no parts where all experts are taken"],
    ["a missing weight", (p) => void (op(p, "rmsNorm").weight = 99), "99"],
    ["a view outside its buffer", (p) => {
      op(p, "rmsNorm").in.firstColumn = 1;
    }, "'in' is columns 1 to 65 of buffer"],
    ["parts of another length", (p) => {
      p.weights[1]!.data[0]!.byteCount = 5n;
    }, "hold 5 bytes"],
    ["a part that is empty", (p) => void (p.weights[1]!.data[0]!.byteCount = 0n), "expected 1 to"],
    ["records of q4s that are not there", (p) => {
      p.weights[1]!.dtype = 18;
      p.weights[1]!.data[0]!.byteCount = 2048n;
      p.weights[1]!.scale = [];
    }, "its shape and dtype need 768"],
    ["a dtype that is none", (p) => void (p.weights[1]!.dtype = 9), "dtype"],
    ["a digest of another length", (p) => {
      p.weights[1]!.data[0]!.digest = new Uint8Array(31);
    }, "31 bytes"],
    ["a shape beyond any memory", (p) => void (p.weights[1]!.shape = [2n ** 40n, 64n]), "shape"],
    ["heads that do not divide", (p) => {
      op(p, "attention").kvHeads = 3;
    }, "has 32 columns"],
    ["columns that nothing wrote", (p) => void p.ops.splice(0, 1), "nothing wrote before"],
    ["an epsilon of 2", (p) => {
      op(p, "rmsNorm").epsilon = 2;
    }, "'epsilon' is 2"],
    ["norm groups that do not divide the columns", (p) => {
      setNorm(p, DType.f32, [3n, 32n], [3n * 32n * 4n]);
    }, "[groups, 64 / groups]"],
    ["norm groups in blocks", (p) => {
      setNorm(p, DType.q8, [2n, 32n], [2n * 32n, 2n * 2n]);
    }, "in f32, f16 or bf16"],
    ["an output that is never finished", (p) => void p.ops.pop(), "output buffer"],
  ];
  for (const [what, change, words] of refusals) {
    it(`refuses ${what}`, () => {
      const attempt = changed(change);
      expect(attempt).toThrow(EngineError);
      expect(attempt).toThrow(words);
    });
  }

  it("refuses bytes that are no program", () => {
    expect(() => decodeProgram(Uint8Array.of(255, 255, 255))).toThrow("not valid protobuf");
    for (let length = 1; length < bytes.length; length += 97) {
      expect(() => decodeProgram(bytes.slice(0, length))).toThrow(EngineError);
    }
  });
});
