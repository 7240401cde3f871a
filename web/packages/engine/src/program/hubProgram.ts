// What a hub runs of a layer whose experts, or neuron groups, other workers hold: everything but
// these (src/program/shards.h, HubProgram). The step stops where they were, gives out rows, and
// goes on with what comes for them.
//
//   the layer    ... route, experts, add ...
//   its hub      ... route, copy of the row and its route, exchange, add ...
//
// Products, and an output head, stay whole, whatever ranges they name (productRanges.ts): this
// engine computes them by itself.
import { RouteKind, overlap, readsOf } from "./ir.ts";
import type { MoeExperts, MoeRoute, Op, Program, Scale, View, Weight } from "./ir.ts";

// The program with an exchange in the place of its experts, without the weights that nothing uses
// any more. The exchange gives out rows of [columns + 2 * topK]: the row, the experts of its slots
// as f32, then their weights. Of neuron groups it gives out the row alone. It takes the weighted
// sums, [columns]. A program without experts stays as it is.
export function hubProgram(program: Program): Program {
  if (!hasExperts(program)) return program;
  const buffers = [...program.buffers];
  const known = program.ops.map((op) => (op.kind === "exchange" ? op.id : -1));
  let id = Math.max(...known) + 1;
  const ops = program.ops.flatMap((op): Op[] => {
    if (op.kind !== "moeExperts") return [op];
    if (areGroups(program, op)) return [{ kind: "exchange", out: op.in, in: op.out, id: id++ }];
    const columns = op.in.columns + op.route.columns;
    buffers.push({ name: "row_and_route", columns });
    const buffer = buffers.length - 1;
    const out = { buffer, firstColumn: 0, columns };
    return [
      copied(op.in, { buffer, firstColumn: 0, columns: op.in.columns }),
      copied(op.route, { buffer, firstColumn: op.in.columns, columns: op.route.columns }),
      { kind: "exchange", out, in: op.out, id: id++ },
    ];
  });
  return withUsedWeights({ ...program, buffers, ops: withoutUnreadRoutes(ops) });
}

export function hasExperts({ ops }: Program): boolean {
  return ops.some(({ kind }) => kind === "moeExperts");
}

// Bytes of the program's weights as the package has them.
export function weightBytesOf({ weights }: Program): number {
  return weights
    .flatMap(({ data, scale, zero }) => [...data, ...scale, ...zero])
    .reduce((sum, { byteCount }) => sum + byteCount, 0);
}

// Whether they are all chosen with weight 1 and lie on a grid (HasGroups in C++).
function areGroups({ ops }: Program, { grid, route }: MoeExperts): boolean {
  const isAll = (op: Op): op is MoeRoute =>
    op.kind === "moeRoute" && op.routeKind === RouteKind.all && op.scale === 1;
  return grid.step !== 0 && ops.some((op) => isAll(op) && op.out.buffer === route.buffer);
}

function copied(from: View, to: View): Scale {
  return { kind: "scale", in: from, out: to, factor: 1 };
}

function withoutUnreadRoutes(ops: readonly Op[]): Op[] {
  const reads = ops.flatMap(readsOf);
  return ops.filter(
    (op) => op.kind !== "moeRoute" || reads.some((view) => overlap(view, op.out)),
  );
}

function withUsedWeights(program: Program): Program {
  const weights: Weight[] = [];
  const places = new Map<number, number>(); // by the number before
  const place = (weight: number): number => {
    if (!places.has(weight)) places.set(weight, weights.push(program.weights[weight]!) - 1);
    return places.get(weight)!;
  };
  const ops = program.ops.map((op) => withWeights(op, place));
  return { ...program, weights, ops };
}

// The operation with other numbers for its weights.
function withWeights(op: Op, place: (weight: number) => number): Op {
  const maybe = (weight: number | null): number | null => (weight === null ? null : place(weight));
  switch (op.kind) {
    case "embed":
    case "rmsNorm":
      return { ...op, weight: place(op.weight) };
    case "layerNorm":
    case "causalConv":
      return { ...op, weight: place(op.weight), bias: maybe(op.bias) };
    case "matmul":
      return {
        ...op,
        weight: { ...op.weight, weight: place(op.weight.weight) },
        bias: maybe(op.bias),
      };
    case "qkNormRope": {
      const rope = op.rope && { ...op.rope, invFreq: place(op.rope.invFreq) };
      return { ...op, normWeight: maybe(op.normWeight), rope };
    }
    case "attention":
      return { ...op, sinks: maybe(op.sinks) };
    case "moeRoute":
      return { ...op, bias: maybe(op.bias) };
    case "moeExperts":
      return {
        ...op,
        gateUp: place(op.gateUp),
        down: place(op.down),
        gateUpBias: maybe(op.gateUpBias),
        downBias: maybe(op.downBias),
      };
    case "deltaRule":
      return { ...op, decay: place(op.decay), dtBias: place(op.dtBias) };
    case "ssmScan":
      return { ...op, decay: place(op.decay), dtBias: place(op.dtBias), skip: place(op.skip) };
    case "add":
    case "scale":
    case "softcap":
    case "gatedActivation":
    case "exchange":
    case "gate":
      return op;
  }
}
