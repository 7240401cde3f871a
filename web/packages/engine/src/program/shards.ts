// What a worker holds of a layer for hubs as programs of their own (src/program/shards.h): its
// experts, of which a slot is a row, and ranges of its products, or of an output head.
import { EngineError } from "../base/error.ts";
import type { MoeExperts, Part, Program, View, Weight } from "./ir.ts";
import { cut } from "./parts.ts";
import { findExperts, findRanges, rangeProgram } from "./productRanges.ts";

// Whether the program gives slots' rows, which no layer takes, instead of a residual stream.
export function isShard({ ops }: Program): boolean {
  return ops.every((op) => op.kind === "moeExperts");
}

// A program of whoever holds parts of a layer, and the parts that it computes, rising. It is of
// experts, of a range of an output head, or of a range of a product inside a layer.
export interface PartProgram {
  readonly kind: "experts" | "head" | "product";
  readonly program: Program;
  readonly parts: readonly number[];
}

// The programs of these parts of a layer, which rise: one of all its experts, then one of each
// range. Throws EngineError (invalid_argument) where the layer has none, or not these.
export function partPrograms(program: Program, parts: readonly number[]): PartProgram[] {
  const products = findRanges(program);
  const firstRange = products[0]?.firstPart ?? Infinity;
  const ofExperts = parts.filter((part) => part < firstRange);
  const ofRanges = parts.filter((part) => part >= firstRange);
  const programs: PartProgram[] = [];
  // Of no parts there is the experts' program, which says what is missing.
  if (ofExperts.length > 0 || ofRanges.length === 0) {
    const shard = expertProgram(program, ofExperts);
    programs.push({ kind: "experts", program: shard, parts: ofExperts });
  }
  const kind = findExperts(program) ? "product" : "head";
  for (const part of ofRanges) {
    programs.push({ kind, program: rangeProgram(program, products, part), parts: [part] });
  }
  return programs;
}

// A program of the same layer over these experts alone, in this order. Its input [columns + 2] is
// the row that goes into the experts, then the index of its expert in `experts` and the weight 1;
// its output [columns] is the unweighted row of that expert. Throws EngineError (invalid_argument)
// where the layer has no experts, or not these.
export function expertProgram(program: Program, experts: readonly number[]): Program {
  const layer = `Layer ${program.layerIndex}`;
  const whole = findExperts(program);
  if (!whole || experts.length === 0) {
    const why = whole ? "was asked for none of its experts" : "has no experts";
    throw new EngineError("invalid_argument", `${layer} ${why}.`);
  }
  const unknown = experts.find((expert) => expert >= whole.experts);
  if (unknown !== undefined) {
    throw new EngineError(
      "invalid_argument",
      `${layer} has no expert ${unknown}, only ${whole.experts}.`,
    );
  }
  const weights: Weight[] = [];
  const pick = (id: number): number =>
    weights.push(pickedWeight(program.weights[id]!, experts)) - 1;
  const { columns } = whole.in;
  const view = (buffer: number, firstColumn: number, count: number): View =>
    ({ buffer, firstColumn, columns: count });
  const op: MoeExperts = {
    ...whole,
    in: view(0, 0, columns),
    route: view(0, columns, 2),
    out: view(1, 0, columns),
    experts: experts.length,
    topK: 1,
    gateUp: pick(whole.gateUp),
    down: pick(whole.down),
    gateUpBias: whole.gateUpBias === null ? null : pick(whole.gateUpBias),
    downBias: whole.downBias === null ? null : pick(whole.downBias),
  };
  return {
    layerIndex: program.layerIndex,
    buffers: [
      { name: "row_and_route", columns: columns + 2 },
      { name: "expert_row", columns },
    ],
    weights,
    ops: [op],
    input: 0,
    output: 1,
  };
}

// Digests of the blobs that the program's weights are made of.
export function blobsOf({ weights }: Program): string[] {
  const parts = weights.flatMap(({ data, scale, zero }) => [...data, ...scale, ...zero]);
  return [...new Set(parts.map(({ digest }) => digest))];
}

// [experts, ...] with only some of the experts.
function pickedWeight(weight: Weight, experts: readonly number[]): Weight {
  const [count, ...rest] = weight.shape as [number, ...number[]];
  const picked = (parts: readonly Part[]): Part[] => pickedParts(parts, count, experts);
  return {
    ...weight,
    shape: [experts.length, ...rest],
    data: picked(weight.data),
    scale: picked(weight.scale),
    zero: picked(weight.zero),
  };
}

// Of a stacked array, which takes as many bytes for each expert.
function pickedParts(parts: readonly Part[], count: number, experts: readonly number[]): Part[] {
  const each = parts.reduce((sum, { byteCount }) => sum + byteCount, 0) / count;
  return experts.flatMap((expert) => cut(parts, expert * each, (expert + 1) * each));
}
