// Products of equal form that a program has one after the other: those of the heads of latent
// attention, each with rows of its own of one weight. They become one dispatch (fuse.ts).
//
//   20 x matmul  in [192] at 0, 192, 384, ...   out [512] at 64, 640, 1216, ...   rows 512 h
//   one run      count 20, inStep 192, outStep 576
import type { MatMul } from "../program/ir.ts";
import { kGroupRows } from "../weights/matrix.ts";

// A product alone is a run of one, whose steps mean nothing.
export interface HeadRun {
  readonly matmuls: readonly MatMul[];
  readonly inStep: number; // columns from the input of a head to that of the next; 0: all share it
  readonly outStep: number;
}

function stepOf(from: { buffer: number; firstColumn: number }, to: typeof from): number {
  return from.buffer === to.buffer ? to.firstColumn - from.firstColumn : -1;
}

// Steps from one product to the next, where both are of the same run; null where they are not.
function stepsOf(a: MatMul, b: MatMul): Pick<HeadRun, "inStep" | "outStep"> | null {
  const isAlike =
    a.weight.weight === b.weight.weight &&
    a.weight.rows === b.weight.rows &&
    b.weight.firstRow === a.weight.firstRow + a.weight.rows &&
    a.in.columns === b.in.columns &&
    a.bias === null &&
    b.bias === null;
  const [inStep, outStep] = [stepOf(a.in, b.in), stepOf(a.out, b.out)];
  // Inputs that overlap are none of heads; outputs that do are written in order.
  const isApart = inStep === 0 || inStep >= a.in.columns;
  return isAlike && isApart && outStep >= a.out.columns ? { inStep, outStep } : null;
}

// The products in runs as long as can be.
export function headRuns(matmuls: readonly MatMul[]): HeadRun[] {
  const runs: HeadRun[] = [];
  for (let first = 0; first < matmuls.length;) {
    const steps = matmuls[first + 1] ? stepsOf(matmuls[first]!, matmuls[first + 1]!) : null;
    const goesOn = (at: number): boolean =>
      steps !== null && isSame(stepsOf(matmuls[at - 1]!, matmuls[at]!), steps);
    let end = first + 1;
    while (end < matmuls.length && goesOn(end)) ++end;
    runs.push({ matmuls: matmuls.slice(first, end), ...(steps ?? { inStep: 0, outStep: 0 }) });
    first = end;
  }
  return runs;
}

function isSame(a: ReturnType<typeof stepsOf>, b: NonNullable<typeof a>): boolean {
  return a?.inStep === b.inStep && a.outStep === b.outStep;
}

// Whether the rows of all heads lie in the matrix without gaps, so that one segment tells where
// they go (product.wgsl).
export function isOneSegment({ matmuls }: HeadRun): boolean {
  return matmuls.length === 1 || matmuls[0]!.weight.rows % kGroupRows === 0;
}
