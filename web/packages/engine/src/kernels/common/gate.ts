// What a kernel whose outputs go through the operation gate is told of it (gate.wgsl): the kind of
// program/ir.ts, and in one more bit whether the gate has a single column.
const kOneGate = 4;

export function gateKindOf(kind: number, isOne: boolean): number {
  return isOne ? kind + kOneGate : kind;
}
