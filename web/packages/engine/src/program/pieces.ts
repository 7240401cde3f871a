// The parts of an operation's message that several operations have, for the decoder that is made
// from src/program/ops.json. A missing message is a view of no columns, which validate() refuses.
import type * as Pb from "../../gen/program/views_pb.ts";
import type { Rope, View, WeightView } from "./views.ts";

export function viewOf(view: Pb.View | undefined): View {
  return {
    buffer: view?.buffer ?? 0,
    firstColumn: view?.firstColumn ?? 0,
    columns: view?.columns ?? 0,
  };
}

export function weightViewOf(view: Pb.WeightView | undefined): WeightView {
  return { weight: view?.weight ?? 0, firstRow: view?.firstRow ?? 0, rows: view?.rows ?? 0 };
}

export function ropeOf(rope: Pb.Rope | undefined): Rope | null {
  if (!rope) return null;
  return { invFreq: rope.invFreq, scale: rope.scale, interleaved: rope.interleaved };
}
