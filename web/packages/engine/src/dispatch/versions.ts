// Buffers that hold one value after another, taken apart: programs use a buffer again as soon as
// nobody needs what it held (src/program/reuse_buffers.h), which would bind operations to their
// order (schedule.ts). The input and the output stay what they are.
//
//   a = norm(x)   b = q(a)   b = turn(b)   a = attend(b)     buffers x, a, b
//   a = norm(x)   b = q(a)   c = turn(b)   d = attend(c)     buffers x, a, b, c, d
import type { Buffer, Op, Program, View } from "../program/ir.ts";
import { withViews, writtenBy } from "../program/ir.ts";

// A write of the whole buffer begins a new value, one of some columns goes into the last one.
function beginsValue({ buffers }: Program, op: Op): boolean {
  const { buffer, columns } = writtenBy(op);
  return columns === buffers[buffer]!.columns;
}

// How many values each buffer holds one after another, the one that it begins with among them.
function valueCounts(program: Program): number[] {
  const counts = program.buffers.map(() => 1);
  for (const op of program.ops) if (beginsValue(program, op)) ++counts[writtenBy(op).buffer]!;
  return counts;
}

export function withoutReuse(program: Program): Program {
  const { input, output } = program;
  const buffers: Buffer[] = [...program.buffers];
  const left = valueCounts(program);
  const current = program.buffers.map((_, id) => id);
  const isNamed = new Set<number>(input === null ? [] : [input]); // ids that hold a value for good

  // Of the next value: the buffer's own where it is free, the output's for the last one of it.
  const idOf = (buffer: number): number => {
    const isLast = --left[buffer]! === 1;
    const mayOwn = buffer === output ? isLast : !isNamed.has(buffer);
    if (mayOwn) {
      isNamed.add(buffer);
      return buffer;
    }
    buffers.push(program.buffers[buffer]!);
    return buffers.length - 1;
  };

  const ops = program.ops.map((op) => {
    const reads = (view: View): View => ({ ...view, buffer: current[view.buffer]! });
    const { buffer } = writtenBy(op);
    const before = current[buffer]!;
    const after = beginsValue(program, op) ? idOf(buffer) : before;
    const made = withViews(op, reads, (view) => ({ ...view, buffer: after }));
    current[buffer] = after;
    return made;
  });
  return { ...program, buffers, ops };
}
