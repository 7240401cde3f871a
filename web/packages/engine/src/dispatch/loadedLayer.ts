// A layer whose weights are on the GPU, ready to become dispatches.
import type { Attention, Embed, MatMul, MoeExperts, Program, QkNormRope } from "../program/ir.ts";
import type { Matrix } from "../weights/matrix.ts";
import type { Fused } from "./fuse.ts";

// Experts [firstExpert, firstExpert + expertCount) of a layer, whose matrices fit a binding; a
// single expert that does not is in several slabs.
export interface ExpertBlock {
  readonly firstExpert: number;
  readonly expertCount: number;
  readonly gateUp: Matrix;
  readonly down: Matrix;
}

export interface LoadedLayer {
  readonly index: number;
  readonly program: Program;
  readonly fused: readonly Fused[];
  readonly attention: Attention | null;
  readonly vectors: GPUBuffer;
  readonly firstOf: ReadonlyMap<number, number>;
  // A product's matrix; products of one fused matrix name the same.
  readonly matrices: ReadonlyMap<MatMul, Matrix>;
  readonly expertBlocks: ReadonlyMap<MoeExperts, readonly ExpertBlock[]>;
  readonly tables: ReadonlyMap<Embed, Matrix>;
  // Which table of rotary frequencies a rotation uses (run/ropes.ts).
  readonly ropeKeys: ReadonlyMap<QkNormRope, string>;
}
