// Step frames to what an engine computes on, and its output to result frames: the same checks as
// src/worker/step_codec.cc. Structure was checked by decodeFrame; here it meets the model.
import { EngineError, bf16ToF32, f16ToF32, f32ToBf16, f32ToF16 } from "@weft/engine";
import type {
  LayerRange,
  Output,
  Run,
  Selection,
  StageEngine,
  StepInput,
  StepOutput,
} from "@weft/engine";
import {
  DType,
  FrameType,
  OutputKind,
  dtypeName,
  elementBytes,
  encodeFrame,
  resultPayloadBytes,
} from "@weft/wire";
import type { Frame, FrameHeader, FrameRun } from "@weft/wire";

import type { Manifest } from "../download/manifest.ts";
import type { SamplingTable } from "./samplingTable.ts";

const kMaxF16 = 65504;
const kMaxBf16 = 3.38e38;

export interface StepTimes {
  readonly queueUs: number;
  readonly computeUs: number;
}

function bad(message: string): EngineError {
  return new EngineError("invalid_data", message);
}

// Throws EngineError with the field that does not fit the model or what `sampling` was told.
// `packs`: what residual rows the engine takes and gives as they are; then the payload is handed on
// and nothing is converted here.
export function decodeStep(
  frame: Frame,
  manifest: Manifest,
  layers: LayerRange,
  sampling: SamplingTable,
  packs: StageEngine["packs"] = null,
): StepInput {
  const isLast = layers.end === manifest.layers.length;
  const runs: Run[] = frame.runs.map((run) => {
    const selects = run.output > OutputKind.hidden;
    if (run.output !== OutputKind.none && selects !== isLast) {
      throw bad(
        `Session ${run.session} asks for output kind ${run.output}: ` +
          (isLast
            ? "the last stage gives tokens or logits, not residual rows."
            : "only the last stage gives tokens or logits."),
      );
    }
    const { session, generation, firstPosition, count, marks } = run;
    const output = outputOf(run, sampling);
    return { session, generation, firstPosition, count, output, ...(marks && { marks }) };
  });
  const input = {
    layers,
    runs,
    tokenIds: layers.first === 0 ? decodeTokens(frame, manifest) : new Int32Array(0),
    packOutput: packs === dtypeName(manifest.boundaryDtype),
  };
  if (layers.first === 0) return { ...input, hidden: new Float32Array(0) };
  checkHidden(frame, manifest);
  if (packs !== dtypeName(frame.header.dtype)) return { ...input, hidden: widened(frame) };
  return { ...input, hidden: new Float32Array(0), packed: bytesOf(frame) };
}

function outputOf(run: FrameRun, table: SamplingTable): Output {
  const { session, generation, firstPosition, count } = run;
  switch (run.output) {
    case OutputKind.none:
      return { kind: "none" };
    case OutputKind.hidden:
      return { kind: "hidden" };
    case OutputKind.argmax:
      return { kind: "argmax" };
    case OutputKind.candidates:
      return {
        kind: "candidates",
        count: run.candidateCount,
        sampling: table.find(session, generation, firstPosition + count).sampling,
      };
    case OutputKind.draw:
      return {
        kind: "draw",
        count: run.candidateCount,
        ...table.find(session, generation, firstPosition + count),
      };
    case OutputKind.logits:
      return { kind: "logits" };
  }
}

// The payload as an own, aligned copy: typed arrays want aligned offsets.
function aligned(frame: Frame): ArrayBuffer {
  return frame.payload.slice().buffer;
}

function decodeTokens(frame: Frame, manifest: Manifest): Int32Array {
  const { dtype, columns } = frame.header;
  if (dtype !== DType.i32 || columns !== 1) {
    throw bad(
      `The first stage takes token ids (i32, 1 column), not ${dtypeName(dtype)} with ` +
        `${columns} columns.`,
    );
  }
  const ids = new Int32Array(aligned(frame));
  const outside = ids.find((id) => id < 0 || id >= manifest.vocabulary);
  if (outside !== undefined) {
    throw bad(
      `Token id ${outside} is outside the vocabulary of ${manifest.vocabulary}.`,
    );
  }
  return ids;
}

function bytesOf({ payload }: Frame): Uint8Array<ArrayBuffer> {
  return new Uint8Array(payload.buffer as ArrayBuffer, payload.byteOffset, payload.length);
}

function checkHidden(frame: Frame, manifest: Manifest): void {
  const { dtype, columns } = frame.header;
  if (dtype !== manifest.boundaryDtype && dtype !== DType.f32) {
    throw bad(
      `Residual rows come as ${dtypeName(manifest.boundaryDtype)} or f32, not ` +
        `${dtypeName(dtype)}.`,
    );
  }
  if (columns !== manifest.hiddenColumns) {
    throw bad(
      `Residual rows have ${columns} columns; the model has ${manifest.hiddenColumns}.`,
    );
  }
}

function widened(frame: Frame): Float32Array {
  const { dtype } = frame.header;
  const bytes = aligned(frame);
  if (dtype === DType.f32) return new Float32Array(bytes);
  const halves = new Uint16Array(bytes);
  const values = new Float32Array(halves.length);
  if (dtype === DType.f16) f16ToF32(halves, values);
  else bf16ToF32(halves, values);
  return values;
}

// The result frame. Throws EngineError when residual rows hold values that the wire's type cannot.
export function encodeResult(
  frame: Frame,
  manifest: Manifest,
  layers: LayerRange,
  output: StepOutput,
  times: StepTimes,
): Uint8Array<ArrayBuffer> {
  const hidden = output.hidden.length > 0 || output.packed !== undefined;
  const header: FrameHeader = {
    ...frame.header,
    type: FrameType.result,
    dtype: manifest.boundaryDtype,
    columns: hidden ? manifest.hiddenColumns : 0,
    queueUs: times.queueUs,
    computeUs: times.computeUs,
  };
  const payload = hidden
    ? (output.packed ?? packHidden(output.hidden, manifest.boundaryDtype, layers))
    : packSelections(frame.runs, output, manifest.headColumns);
  const expected = resultPayloadBytes(
    frame.runs,
    header.columns,
    header.dtype,
    manifest.headColumns,
  );
  if (payload.length !== expected) {
    throw new EngineError(
      "unavailable",
      `The engine gave ${payload.length} bytes for layers ${layers.first} to ${layers.end - 1}, ` +
        `expected ${expected}.`,
    );
  }
  return encodeFrame(header, frame.runs, payload);
}

// Residual rows as the wire has them. Throws EngineError where it cannot have them.
export function packHidden(rows: Float32Array, dtype: DType, layers: LayerRange): Uint8Array {
  const limit =
    dtype === DType.f16 ? kMaxF16 : dtype === DType.bf16 ? kMaxBf16 : Number.MAX_VALUE;
  let badCount = 0;
  for (const value of rows) if (!(Math.abs(value) <= limit)) ++badCount;
  if (badCount > 0) {
    throw bad(
      `${badCount} values of the residual stream after layer ${layers.end - 1} are not finite in ` +
        `${dtypeName(dtype)}.`,
    );
  }
  if (dtype === DType.f32) return new Uint8Array(rows.slice().buffer);
  const halves = new Uint16Array(rows.length);
  if (dtype === DType.f16) f32ToF16(rows, halves);
  else f32ToBf16(rows, halves);
  return new Uint8Array(halves.buffer, 0, rows.length * elementBytes(dtype));
}

function packSelections(
  runs: readonly FrameRun[],
  output: StepOutput,
  headColumns: number,
): Uint8Array {
  const bytes = new Uint8Array(resultPayloadBytes(runs, 0, DType.f32, headColumns));
  const view = new DataView(bytes.buffer);
  let at = 0;
  let nextSelection = 0;
  let nextLogit = 0;
  for (const run of runs) {
    if (run.output === OutputKind.argmax) {
      at = packArgmax(view, at, output.selections[nextSelection++]!);
    } else if (run.output === OutputKind.candidates) {
      at = packCandidates(view, at, output.selections[nextSelection++]!);
    } else if (run.output === OutputKind.draw) {
      at = packDraw(view, at, output.selections[nextSelection++]!);
    } else if (run.output === OutputKind.logits) {
      for (const end = nextLogit + run.count * headColumns; nextLogit < end; ++nextLogit) {
        view.setFloat32(at, output.logits[nextLogit]!, true);
        at += 4;
      }
    }
  }
  return bytes.subarray(0, at);
}

function packArgmax(view: DataView, at: number, { candidates }: Selection): number {
  const [best, second] = candidates;
  view.setUint32(at, best!.tokenId, true);
  view.setFloat32(at + 4, best!.logit, true);
  view.setFloat32(at + 8, second ? best!.logit - second.logit : 0, true);
  return at + 12;
}

function packCandidates(view: DataView, at: number, selection: Selection): number {
  const { candidates, logsumexp, scaledSum } = selection;
  view.setUint32(at, candidates.length, true);
  view.setFloat32(at + 4, logsumexp, true);
  view.setFloat32(at + 8, scaledSum ?? NaN, true);
  return packList(view, at + 12, candidates);
}

function packDraw(view: DataView, at: number, selection: Selection): number {
  const { candidates, logsumexp, drawn } = selection;
  view.setUint32(at, drawn!.tokenId, true);
  view.setFloat32(at + 4, drawn!.logit, true);
  view.setFloat32(at + 8, logsumexp, true);
  return packList(view, at + 12, candidates);
}

function packList(view: DataView, at: number, list: Selection["candidates"]): number {
  let next = at;
  for (const { tokenId, logit } of list) {
    view.setUint32(next, tokenId, true);
    view.setFloat32(next + 4, logit, true);
    next += 8;
  }
  return next;
}
