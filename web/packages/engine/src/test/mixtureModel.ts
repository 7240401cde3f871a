// Layers with experts whose shape is that of a mixture, with random weights in f32. Tests only.
import type { View } from "../program/ir.ts";
import { weightOf } from "./caseInputs.ts";
import { ToyModel } from "./toyModel.ts";
import type { ToyLayer } from "./toyModel.ts";

export const kColumns = 40;
export const kExperts = 5;
const kWidth = 24;

export function view(buffer: number, columns: number): View {
  return { buffer, firstColumn: 0, columns };
}

// How experts are chosen (RouteKind), how many, and the grid of what they give.
export interface Choice {
  readonly kind: number;
  readonly topK: number;
  readonly gridStep?: number;
  readonly gridLimit?: number;
}

// x + experts(norm(x)), where the route is of a product of the norm.
function mixtureLayer({ kind, topK, ...grid }: Choice): ToyLayer {
  const weights = [
    weightOf({ kind: "f32", shape: [kColumns], seed: 1, offset: 1 }),
    weightOf({ kind: "f32", shape: [kExperts, 2 * kWidth, kColumns], seed: 2 }),
    weightOf({ kind: "f32", shape: [kExperts, kColumns, kWidth], seed: 3 }),
    weightOf({ kind: "f32", shape: [kExperts, kColumns], seed: 4 }),
  ];
  const [row, normed] = [view(0, kColumns), view(1, kColumns)];
  const [logits, route, sums] = [view(2, kExperts), view(3, 2 * topK), view(4, kColumns)];
  const norm = { in: row, out: normed, weight: 0, epsilon: 1e-6 };
  const product =
    { in: normed, out: logits, weight: { weight: 3, firstRow: 0, rows: kExperts } };
  const choice = { logits, out: route, experts: kExperts, topK, kind };
  const experts = { in: normed, route, out: sums, experts: kExperts, topK, gateUp: 1, down: 2 };
  return {
    buffers: [kColumns, kColumns, kExperts, 2 * topK, kColumns],
    weights,
    ops: [
      { kind: { case: "rmsNorm" as const, value: norm } },
      { kind: { case: "matmul" as const, value: product } },
      { kind: { case: "moeRoute" as const, value: choice } },
      { kind: { case: "moeExperts" as const, value: { ...experts, ...grid } } },
      { kind: { case: "add" as const, value: { a: row, b: sums, out: row } } },
    ],
    input: 0,
    output: 0,
  };
}

// Each of these layers is one.
export function mixtureModel(choice: Choice, layers: readonly number[]): ToyModel {
  return new ToyModel(new Map(layers.map((layer) => [layer, mixtureLayer(choice)])));
}
