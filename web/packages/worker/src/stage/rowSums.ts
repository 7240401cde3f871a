// Results on a grid are added up where they go (src/worker/expert_host.cc): a holder sends one row
// for all its neuron groups of a layer, and the order of the sum changes no bit. Where the hub
// takes them so they are whole steps of the grid, three bytes each.
import { RowType } from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";

const kMostSteps = 2 ** 23 - 1;

// Whether the result of `later` may go into that of `first`.
function mayAdd(first: ExpertFrame, later: ExpertFrame): boolean {
  return (
    first.maySum &&
    later.maySum &&
    first.sequence === later.sequence &&
    first.layer === later.layer &&
    first.expert < later.expert &&
    first.rows === later.rows
  );
}

const floatsOf = ({ rows }: ExpertFrame): Float32Array<ArrayBuffer> =>
  new Float32Array(rows.slice().buffer);

// Results that may be added up become one, their sum, in the place of the first. Ranges of products
// are no experts: each has columns of its own, whatever the hub says.
export function addedUp(
  dispatches: readonly ExpertFrame[],
  results: readonly ExpertFrame[],
  isExpert: (dispatch: ExpertFrame) => boolean,
): ExpertFrame[] {
  const all: ExpertFrame[] = [];
  let first: ExpertFrame | null = null; // the dispatch whose results go into the last of `all`
  let sum = new Float32Array(0);
  for (const [i, dispatch] of dispatches.entries()) {
    const result = results[i]!;
    const before = all.at(-1);
    const last = before?.added.at(-1) ?? -1;
    const may = !result.failed && isExpert(dispatch) && last < result.expert;
    if (before && first && may && mayAdd(first, dispatch)) {
      if (before.added.length === 0) sum = floatsOf(before);
      const more = floatsOf(result);
      for (let k = 0; k < sum.length; ++k) sum[k]! += more[k]!;
      const added = [...before.added, result.expert];
      all[all.length - 1] = { ...before, added, rows: new Uint8Array(sum.buffer) };
      continue;
    }
    first = result.failed || !isExpert(dispatch) ? null : dispatch;
    all.push(result);
  }
  return all;
}

// The result as steps of its layer's grid, or as it is where a value is no whole number of them, or
// one beyond 24 bits.
export function inSteps(result: ExpertFrame, step: number): ExpertFrame {
  const values = floatsOf(result);
  const bytes = new Uint8Array(3 * values.length);
  for (let i = 0; i < values.length; ++i) {
    const steps = values[i]! / step;
    if (!Number.isInteger(steps) || Math.abs(steps) > kMostSteps) return result;
    bytes[3 * i] = steps;
    bytes[3 * i + 1] = steps >> 8;
    bytes[3 * i + 2] = steps >> 16;
  }
  return { ...result, rowType: RowType.steps, rows: bytes };
}
