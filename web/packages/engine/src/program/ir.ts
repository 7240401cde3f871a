// The program of one layer as plain data: the same names and meanings as src/program/ir.h, where
// shapes and aliasing are described. Made by decode.ts, checked by validate.ts.
// Versions from kOldestProgramVersion on are read; 2 has superblocks.
export const kProgramVersion = 2;
export const kOldestProgramVersion = 1;

// The numbers of tensor/dtype.h, as far as weights have them.
export const DType = {
  f32: 0,
  f16: 1,
  bf16: 2,
  q8: 16,
  q4: 17,
  q4s: 18,
  q4k: 19,
  q5k: 20,
  q6k: 21,
} as const;
export const kBlockValues = 32;
export const kSuperblockValues = 256;

export function isKQuant(dtype: number): boolean {
  return dtype === DType.q4k || dtype === DType.q5k || dtype === DType.q6k;
}

export function isSuperblockFormat(dtype: number): boolean {
  return dtype === DType.q4s || isKQuant(dtype);
}

export function isBlockFormat(dtype: number): boolean {
  return dtype === DType.q8 || dtype === DType.q4 || isSuperblockFormat(dtype);
}

// Bits of a level above its low four. REQUIRES: isKQuant(dtype).
export function upperBitsOf(dtype: number): number {
  return dtype - DType.q4k;
}

// Bytes of a superblock's record. REQUIRES: isSuperblockFormat(dtype).
export function recordBytesOf(dtype: number): number {
  if (dtype === DType.q4s) return 12;
  return dtype === DType.q4k ? 16 : dtype === DType.q5k ? 48 : 82;
}

export interface Part {
  readonly digest: string; // hexadecimal
  readonly offset: number;
  readonly byteCount: number;
}

export interface Weight {
  readonly name: string;
  readonly dtype: number;
  readonly shape: readonly number[]; // [columns], [rows, columns] or [experts, rows, columns]
  readonly data: readonly Part[];
  readonly scale: readonly Part[]; // block formats only
  readonly zero: readonly Part[]; // q4 with zero points only
}

export interface Buffer {
  readonly name: string;
  readonly columns: number;
}

export interface View {
  readonly buffer: number;
  readonly firstColumn: number;
  readonly columns: number;
}

export interface WeightView {
  readonly weight: number;
  readonly firstRow: number;
  readonly rows: number;
}

export interface Rope {
  readonly invFreq: number; // weight
  readonly scale: number;
  readonly interleaved: boolean;
}

// relu: max(gate, 0) * up; where one value is both, its square or 0.
export const Activation = { silu: 0, geluTanh: 1, gelu: 2, swigluOai: 3, relu: 4 } as const;
export const RouteKind = {
  softmaxTopK: 0,
  softmaxTopKNormalized: 1,
  sigmoidTopK: 2,
  sigmoidTopKNormalized: 3,
} as const;

// What a gate multiplies by: itself, its sigmoid, or both.
export const GateKind = { identity: 0, sigmoid: 1, silu: 2 } as const;

export const kMaxRouteGroups = 64;
export const kMaxGroupBest = 2;

export interface Embed {
  readonly kind: "embed";
  readonly weight: number;
  readonly out: View;
  readonly scale: number;
}
export interface RmsNorm {
  readonly kind: "rmsNorm";
  readonly in: View;
  readonly out: View;
  readonly weight: number; // [columns], or [groups, columns / groups]: the norm of each group
  readonly epsilon: number;
}
export interface LayerNorm {
  readonly kind: "layerNorm";
  readonly in: View;
  readonly out: View;
  readonly weight: number;
  readonly bias: number | null;
  readonly epsilon: number;
}
export interface MatMul {
  readonly kind: "matmul";
  readonly in: View;
  readonly out: View;
  readonly weight: WeightView;
  readonly bias: number | null;
}
export interface Add {
  readonly kind: "add";
  readonly a: View;
  readonly b: View;
  readonly out: View;
}
export interface Scale {
  readonly kind: "scale";
  readonly in: View;
  readonly out: View;
  readonly factor: number;
}
export interface Softcap {
  readonly kind: "softcap";
  readonly in: View;
  readonly out: View;
  readonly cap: number;
}
export interface QkNormRope {
  readonly kind: "qkNormRope";
  readonly in: View;
  readonly out: View;
  readonly heads: number;
  readonly headColumns: number;
  readonly normWeight: number | null;
  readonly epsilon: number;
  readonly rope: Rope | null;
}
export interface Attention {
  readonly kind: "attention";
  readonly q: View;
  readonly k: View;
  readonly v: View;
  readonly out: View;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headColumns: number;
  readonly scale: number;
  readonly window: number; // 0: whole past
  readonly softcap: number; // 0: none
  readonly sinks: number | null;
  readonly valueColumns: number; // 0: values apart from keys; else the last columns of keys
  // Whose keys and values it attends to, where they are not its own; then k and v have no columns.
  readonly kvLayer: number | null;
}
export interface GatedActivation {
  readonly kind: "gatedActivation";
  readonly gate: View;
  readonly up: View;
  readonly out: View;
  readonly activation: number;
}
export interface MoeRoute {
  readonly kind: "moeRoute";
  readonly logits: View;
  readonly out: View;
  readonly experts: number;
  readonly topK: number;
  readonly route: number; // RouteKind
  readonly bias: number | null; // for the choice only
  readonly groups: number;
  readonly topGroups: number;
  readonly groupBest: number; // experts that a group is judged by
  readonly scale: number;
}
export interface MoeExperts {
  readonly kind: "moeExperts";
  readonly in: View;
  readonly route: View;
  readonly out: View;
  readonly experts: number;
  readonly topK: number;
  readonly activation: number;
  readonly gateUp: number; // [experts, 2 * width, columns]; without a gate [experts, width, ...]
  readonly down: number;
  readonly gateUpBias: number | null;
  readonly downBias: number | null;
}
export interface Exchange {
  readonly kind: "exchange";
  readonly out: View;
  readonly in: View;
  readonly id: number;
}

export interface Gate {
  readonly kind: "gate";
  readonly in: View;
  readonly gate: View; // the columns of `in`, or one
  readonly out: View;
  readonly gateKind: number; // GateKind
}
export interface CausalConv {
  readonly kind: "causalConv";
  readonly in: View;
  readonly out: View;
  readonly weight: number; // [columns, taps]
  readonly bias: number | null;
  readonly silu: boolean;
}
export interface DeltaRule {
  readonly kind: "deltaRule";
  readonly q: View;
  readonly k: View;
  readonly v: View;
  readonly a: View;
  readonly b: View;
  readonly out: View;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyColumns: number;
  readonly valueColumns: number;
  readonly decay: number;
  readonly dtBias: number;
  readonly groups: number; // ir.h KeyGroups: 0 grouped, 1 tiled
}
export interface SsmScan {
  readonly kind: "ssmScan";
  readonly x: View;
  readonly b: View;
  readonly c: View;
  readonly dt: View;
  readonly out: View;
  readonly heads: number;
  readonly headColumns: number;
  readonly groups: number;
  readonly stateColumns: number;
  readonly decay: number;
  readonly dtBias: number;
  readonly skip: number;
  readonly dtMin: number;
  readonly dtMax: number; // 0: no upper limit
}

// The most taps and columns that a state is summed over: ir.h.
export const kMaxConvTaps = 8;
export const kMaxStateColumns = 256;

export type Op =
  | Embed
  | RmsNorm
  | LayerNorm
  | MatMul
  | Add
  | Scale
  | Softcap
  | QkNormRope
  | Attention
  | GatedActivation
  | MoeRoute
  | MoeExperts
  | Exchange
  | Gate
  | CausalConv
  | DeltaRule
  | SsmScan;

export interface Program {
  readonly layerIndex: number;
  readonly buffers: readonly Buffer[];
  readonly weights: readonly Weight[];
  readonly ops: readonly Op[];
  readonly input: number | null; // buffer; none for the embedding
  readonly output: number;
}

export function overlap(a: View, b: View): boolean {
  return (
    a.buffer === b.buffer &&
    a.firstColumn < b.firstColumn + b.columns &&
    b.firstColumn < a.firstColumn + a.columns
  );
}

export function same(a: View, b: View): boolean {
  return a.buffer === b.buffer && a.firstColumn === b.firstColumn && a.columns === b.columns;
}

// The views that an operation reads.
export function readsOf(op: Op): readonly View[] {
  switch (op.kind) {
    case "embed":
      return [];
    case "add":
      return [op.a, op.b];
    case "attention":
      return op.kvLayer === null ? [op.q, op.k, op.v] : [op.q];
    case "gatedActivation":
      return [op.gate, op.up];
    case "moeRoute":
      return [op.logits];
    case "moeExperts":
      return [op.in, op.route];
    case "exchange":
      return [op.out];
    case "gate":
      return [op.in, op.gate];
    case "deltaRule":
      return [op.q, op.k, op.v, op.a, op.b];
    case "ssmScan":
      return [op.x, op.b, op.c, op.dt];
    default:
      return [op.in];
  }
}

// The operation with other views in their places.
export function withViews(op: Op, read: (view: View) => View, write: (view: View) => View): Op {
  switch (op.kind) {
    case "embed":
      return { ...op, out: write(op.out) };
    case "add":
      return { ...op, a: read(op.a), b: read(op.b), out: write(op.out) };
    case "attention": {
      const [q, k, v] = [read(op.q), read(op.k), read(op.v)];
      return { ...op, q, k, v, out: write(op.out) };
    }
    case "gatedActivation":
      return { ...op, gate: read(op.gate), up: read(op.up), out: write(op.out) };
    case "moeRoute":
      return { ...op, logits: read(op.logits), out: write(op.out) };
    case "moeExperts":
      return { ...op, in: read(op.in), route: read(op.route), out: write(op.out) };
    case "exchange":
      return { ...op, out: read(op.out), in: write(op.in) };
    case "gate":
      return { ...op, in: read(op.in), gate: read(op.gate), out: write(op.out) };
    case "deltaRule": {
      const [q, k, v, a, b] = [op.q, op.k, op.v, op.a, op.b].map(read) as Five;
      return { ...op, q, k, v, a, b, out: write(op.out) };
    }
    case "ssmScan": {
      const [x, b, c, dt] = [read(op.x), read(op.b), read(op.c), read(op.dt)];
      return { ...op, x, b, c, dt, out: write(op.out) };
    }
    default:
      return { ...op, in: read(op.in), out: write(op.out) };
  }
}

type Five = [View, View, View, View, View];

// The view that an operation writes.
export function writtenBy(op: Op): View {
  return op.kind === "exchange" ? op.in : op.out;
}

// Columns that attention gives for a query head.
export function outColumnsOf({ headColumns, valueColumns }: Attention): number {
  return valueColumns > 0 ? valueColumns : headColumns;
}

export function findAttention(program: Program): Attention | null {
  return program.ops.find((op): op is Attention => op.kind === "attention") ?? null;
}

// f32 values that an operation carries from row to row of a session: src/program/state.h.
export function stateFloatsOf({ weights }: Pick<Program, "weights">, op: Op): number {
  switch (op.kind) {
    case "causalConv":
      return (weights[op.weight]!.shape[1]! - 1) * op.in.columns;
    case "deltaRule":
      return op.valueHeads * op.keyColumns * op.valueColumns;
    case "ssmScan":
      return op.heads * op.headColumns * op.stateColumns;
    default:
      return 0;
  }
}

// The state of a session in the layer; 0 for most layers.
export function stateFloats(program: Program): number {
  return program.ops.reduce((sum, op) => sum + stateFloatsOf(program, op), 0);
}

// True unless the output is a sum, or a sum times a number: a layer adds to the residual stream
// last (Gemma 4's then scale it), the head ends with a product (and perhaps a scale or softcap). As
// loaded_layer.cc.
export function endsInLogits(program: Program): boolean {
  if (program.input === null) return false;
  const held = new Map<number, "sum" | "rows" | "other">(); // what operations left in a buffer
  for (const op of program.ops) {
    const isSum = op.kind === "add" || (op.kind === "scale" && held.get(op.in.buffer) === "sum");
    const rest = op.kind === "exchange" || op.kind === "moeExperts" ? "rows" : "other";
    held.set(writtenBy(op).buffer, isSum ? "sum" : rest);
  }
  return held.get(program.output) === "other";
}
