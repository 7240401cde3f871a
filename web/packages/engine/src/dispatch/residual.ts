// Every layer reads the residual stream and leaves it in the same place. Where a program's output
// is another buffer than its input, both may still be that place when nothing reads the input any
// more once the output is written (element by element in the writing dispatch itself).
import type { Program, View } from "../program/ir.ts";
import { readsOf, writtenBy } from "../program/ir.ts";
import type { Fused } from "./fuse.ts";

interface Access {
  readonly spread: readonly View[]; // read by other threads than the one that writes
  readonly own: readonly View[]; // read only by the thread that writes that element
  readonly writes: readonly View[];
}

function accessOf(fused: Fused): Access {
  switch (fused.kind) {
    case "product": {
      const { matmuls, norm, gate, residual, residual2, outs } = fused;
      const spread = norm ? [norm.in] : matmuls.map((matmul) => matmul.in);
      // A gate of one column is read by all threads.
      const own = [residual, residual2].filter((view) => view !== null);
      return { spread: gate ? [...spread, gate.gate] : spread, own, writes: outs };
    }
    case "attention": {
      const { op, gate, out } = fused;
      return { spread: [...readsOf(op), ...(gate ? [gate.gate] : [])], own: [], writes: [out] };
    }
    case "experts": {
      const { op, residual, out } = fused;
      // What experts in several blocks have added up lies where the operation says.
      return { spread: [op.in, op.route], own: residual ? [residual] : [], writes: [op.out, out] };
    }
    case "normed": {
      const { op, residual, out } = fused;
      return { spread: [op.in], own: residual ? [residual] : [], writes: [out] };
    }
    case "heads":
      return {
        spread: fused.parts.map((part) => part.input),
        own: fused.gated ? [fused.gated.gate] : [],
        writes: fused.parts.filter((part) => part.goesTo === "out").map((part) => part.out),
      };
    case "single": {
      const { op } = fused;
      const isPlain = op.kind === "add" || op.kind === "scale" || op.kind === "softcap";
      const elementwise = isPlain || op.kind === "gatedActivation";
      const reads = readsOf(op);
      return {
        spread: elementwise ? [] : reads,
        own: elementwise ? reads : [],
        writes: [writtenBy(op)],
      };
    }
  }
}

// The buffers that dispatches read or write: what is made and used within one has no place.
export function buffersOf(fused: readonly Fused[]): Set<number> {
  const views = fused.map(accessOf).flatMap(({ spread, own, writes }) => [spread, own, writes]);
  return new Set(views.flat().map(({ buffer }) => buffer));
}

export function outputIsInput(program: Program, fused: readonly Fused[]): boolean {
  const { input, output, buffers } = program;
  if (input === null || input === output) return true;
  if (buffers[input]!.columns !== buffers[output]!.columns) return false;
  let isWritten = false;
  for (const step of fused) {
    const { spread, own, writes } = accessOf(step);
    const reads = [...spread, ...own].some((view) => view.buffer === input);
    if (isWritten && reads) return false;
    const writesOutput = writes.some((view) => view.buffer === output);
    if (!writesOutput) continue;
    if (spread.some((view) => view.buffer === input)) return false;
    // The same element: whole rows on both sides.
    const whole = [...own.filter((view) => view.buffer === input), ...writes];
    if (whole.some((view) => view.columns !== buffers[output]!.columns)) return false;
    isWritten = true;
  }
  return true;
}

// Index of the dispatch group that finishes the whole output, where rounding can be part of it.
export function finisherOf(program: Program, fused: readonly Fused[]): number {
  const { columns } = program.buffers[program.output]!;
  let last = -1;
  // Columns of the input that nothing writes have been rounded where they came from.
  const isInPlace = program.input === program.output;
  for (const [index, step] of fused.entries()) {
    const { writes, own, spread } = accessOf(step);
    const readsOutput = [...own, ...spread].some((view) => view.buffer === program.output);
    if (readsOutput && program.output !== program.input && last >= 0) last = -2;
    const writesOutput = writes.find((view) => view.buffer === program.output);
    const isWhole = writesOutput?.columns === columns || (isInPlace && last === -1);
    if (writesOutput) last = isWhole ? index : -2;
  }
  if (last < 0) return -1;
  const step = fused[last]!;
  const roundsItself =
    (step.kind === "product" && step.outs.length === 1) ||
    step.kind === "normed" ||
    step.kind === "experts" ||
    (step.kind === "single" &&
      ["add", "scale", "softcap", "gatedActivation", "embed"].includes(step.op.kind));
  const isReadLater = fused
    .slice(last + 1)
    .some((later) => {
      const { own, spread } = accessOf(later);
      return [...own, ...spread].some((view) => view.buffer === program.output);
    });
  return roundsItself && !isReadLater ? last : -1;
}
