// What surrounds the output head: the gathering of the rows that need it before, the choice of
// tokens behind it.
import { kNone } from "../kernels/common/op.ts";
import { Rounding, RowsAt } from "../kernels/common/numbers.ts";
import { checkOp, Elementwise, rowKernels, unpackOp } from "../kernels/rows/rows.ts";
import { argmaxOp, scaledSumOp, selectKernels, topKOp } from "../kernels/select/select.ts";
import type { Draft } from "./dispatch.ts";
import { elementwise } from "./layer.ts";
import { kMaxCandidates } from "../sampling/tokenLogit.ts";
import { kResultHeader, kResultWords, listsOf, padded, stretchesOf } from "./layout.ts";
import type { Layout } from "./layout.ts";

const always = (): boolean => true;

export function gatherDraft({ residual, headInput }: Layout, columns: number): Draft {
  const fields = { kind: Elementwise.gather, a: residual, out: headInput };
  return elementwise({ rowsAt: RowsAt.head }, columns, fields);
}

// Counts values of the residual stream that are not finite; `packedKind` not
// f32: packs its rows, too, in that type.
export function checkDraft(layout: Layout, columns: number, packedKind: number): Draft {
  const isPacked = packedKind !== Rounding.f32;
  const packed = {
    base: isPacked ? layout.packedBase : kNone,
    stride: packedStride(columns),
  };
  return {
    variant: rowKernels.check(),
    params: checkOp.bytes({
      rowsAt: RowsAt.body,
      rows: layout.residual,
      columns,
      packed,
      packedKind,
    }),
    bound: {},
    grid: ({ rows }) => [1, rows, 1],
    when: always,
  };
}

// Words of a packed row.
export function packedStride(columns: number): number {
  return padded(columns) / 2;
}

export function unpackDraft(layout: Layout, columns: number, kind: number): Draft {
  const { packedBase, residual: out } = layout;
  return {
    variant: rowKernels.unpack(),
    params: unpackOp.bytes({ rowsAt: RowsAt.body, packedBase, out, columns, kind }),
    bound: {},
    grid: ({ rows }) => [Math.ceil(columns / 64), rows, 1],
    when: always,
  };
}

export function argmaxDrafts({ logits, aux }: Layout, vocabulary: number): Draft[] {
  const stretches = stretchesOf(vocabulary);
  const params = argmaxOp.bytes({
    rowsAt: RowsAt.head,
    logits,
    vocabulary,
    partialAt: aux.partialAt,
    resultAt: aux.resultAt,
    resultStride: kResultWords,
    chainAt: aux.chainAt,
    historyAt: aux.historyAt,
    stretches,
  });
  return [false, true].map((isMerge) => ({
    variant: selectKernels.argmax(isMerge),
    params,
    bound: {},
    grid: ({ rows }) => [isMerge ? 1 : stretches, rows, 1],
    when: always,
  }));
}

// What candidates have beside them: parts of a sum over the vocabulary.
export function scaledSumDraft({ logits, aux }: Layout, vocabulary: number): Draft {
  const { resultAt, sumsAt: outAt } = aux;
  const stretches = stretchesOf(vocabulary);
  return {
    variant: selectKernels.scaledSum(),
    params: scaledSumOp.bytes({
      rowsAt: RowsAt.head,
      logits,
      vocabulary,
      resultAt,
      resultStride: kResultWords,
      outAt,
      stretches,
    }),
    bound: {},
    grid: ({ rows }) => [stretches, rows, 1],
    when: always,
  };
}

// Level after level until one list of the best is left, behind the head of the row's result.
export function topKDrafts({ headRows, logits, aux }: Layout, vocabulary: number): Draft[] {
  const drafts: Draft[] = [];
  let count = vocabulary;
  let input = logits;
  for (let level = 0; ; ++level) {
    const lists = listsOf(count);
    const base = aux.candidatesAt + (level % 2) * headRows * aux.candidateStride;
    const isLast = lists === 1;
    const out = isLast
      ? { base: aux.resultAt + kResultHeader, stride: kResultWords }
      : { base, stride: aux.candidateStride };
    drafts.push({
      variant: selectKernels.topK(),
      params: topKOp.bytes({
        rowsAt: RowsAt.head,
        fromLogits: level === 0,
        in: input,
        count,
        out,
      }),
      bound: {},
      grid: ({ rows }) => [lists, rows, 1],
      when: always,
    });
    if (isLast) return drafts;
    count = lists * kMaxCandidates;
    input = out;
  }
}
