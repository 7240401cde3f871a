// Data frames: what a stage computes on and gives back. The layout is documented in
// src/wire/data_frame.h; this is its other implementation, held together by tests/golden.
import { DType, elementBytes, isDType } from "./dtype.ts";
import { WireError } from "./error.ts";
import { kProtocolVersion } from "./version.ts";

const kFrameMagic = 0x54464557; // "WEFT"
const kHeaderBytes = 40;
const kRunBytes = 16;
const kQueueUnitUs = 100;
export const kMaxMarks = 8; // of a session: src/base/marks.h
export const kMaxTopLogprobs = 20; // tokens that are reported beside the one drawn
const kMaxU16 = 0xffff;
const kMaxU32 = 0xffffffff;

export const FrameType = { step: 1, result: 2 } as const;
export type FrameType = (typeof FrameType)[keyof typeof FrameType];

export const OutputKind = {
  none: 0,
  hidden: 1,
  argmax: 2,
  candidates: 3,
  logits: 4,
  draw: 5,
} as const;
export type OutputKind = (typeof OutputKind)[keyof typeof OutputKind];

export interface FrameRun {
  session: number; // u32, never reused in a connection
  generation: number; // u32, raised by every truncate or reset
  firstPosition: number; // u32
  count: number; // 1..65535 rows
  output: OutputKind;
  candidateCount: number; // 1..256 for candidates, 0..20 for a draw, else 0
  marks?: number; // 1..kMaxMarks; absent: the run asks for none
}

export interface FrameHeader {
  type: FrameType;
  sequence: number;
  binding: number;
  stage: number;
  rows: number;
  columns: number;
  dtype: DType;
  queueUs: number; // rounded down to 100 us on the wire, at most 6.5 s
  computeUs: number;
}

export interface Frame {
  header: FrameHeader;
  runs: FrameRun[];
  payload: Uint8Array; // shares the received message
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

// Header, descriptors and payload as one WebSocket message.
// REQUIRES: 1..65535 runs, counts as documented, header.rows is their sum.
export function encodeFrame(
  header: FrameHeader,
  runs: readonly FrameRun[],
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const runsEnd = kHeaderBytes + runs.length * kRunBytes;
  const bytes = new Uint8Array(runsEnd + payload.length);
  const view = viewOf(bytes);
  view.setUint32(0, kFrameMagic, true);
  view.setUint16(4, kProtocolVersion, true);
  view.setUint8(6, header.type);
  view.setUint32(8, bytes.length - kHeaderBytes, true);
  view.setUint32(12, header.sequence, true);
  view.setUint32(16, header.binding, true);
  view.setUint16(20, header.stage, true);
  view.setUint16(22, runs.length, true);
  view.setUint32(24, header.rows, true);
  view.setUint32(28, header.columns, true);
  view.setUint8(32, header.dtype);
  view.setUint16(34, Math.min(Math.floor(header.queueUs / kQueueUnitUs), kMaxU16), true);
  view.setUint32(36, Math.min(Math.floor(header.computeUs), kMaxU32), true);
  runs.forEach((run, index) => {
    const at = kHeaderBytes + index * kRunBytes;
    view.setUint32(at, run.session, true);
    view.setUint32(at + 4, run.generation, true);
    view.setUint32(at + 8, run.firstPosition, true);
    view.setUint16(at + 12, run.count, true);
    view.setUint8(at + 14, run.output | ((run.marks ?? 0) << 4));
    const isCandidates = run.output === OutputKind.candidates;
    view.setUint8(at + 15, isCandidates ? run.candidateCount - 1 : run.candidateCount);
  });
  bytes.set(payload, runsEnd);
  return bytes;
}

// Parses and validates structure: magic, version, type, flags, lengths that add up exactly, counts
// that sum to rows, known kinds and element types. Throws WireError.
export function decodeFrame(message: Uint8Array): Frame {
  if (message.length < kHeaderBytes) {
    throw new WireError(
      `The frame has ${message.length} bytes, expected at least ${kHeaderBytes}.`,
    );
  }
  const view = viewOf(message);
  const header = decodeHeader(view);
  const afterHeader = view.getUint32(8, true);
  if (afterHeader !== message.length - kHeaderBytes) {
    throw new WireError(
      `The frame announces ${afterHeader} bytes after its header, expected ` +
        `${message.length - kHeaderBytes} as the message holds.`,
    );
  }
  const runs = decodeRuns(view, afterHeader);
  const rows = runs.reduce((sum, run) => sum + run.count, 0);
  if (rows !== header.rows) {
    throw new WireError(
      `The frame has ${header.rows} rows, expected ${rows} as its runs count.`,
    );
  }
  const payload = message.subarray(kHeaderBytes + runs.length * kRunBytes);
  if (header.type === FrameType.step) checkStepPayload(header, payload.length);
  else checkResultPayload(header, runs, payload.length);
  return { header, runs, payload };
}

function decodeHeader(view: DataView): FrameHeader {
  const magic = view.getUint32(0, true);
  if (magic !== kFrameMagic) {
    throw new WireError(
      `The frame begins with the number ${magic}, expected ${kFrameMagic} ("WEFT").`,
    );
  }
  const version = view.getUint16(4, true);
  if (version !== kProtocolVersion) {
    throw new WireError(
      `The frame has protocol version ${version}, expected ${kProtocolVersion}.`,
    );
  }
  const type = view.getUint8(6);
  if (type !== FrameType.step && type !== FrameType.result) {
    throw new WireError(`The frame has type ${type}, expected 1 (step) or 2 (result).`);
  }
  if (view.getUint8(7) !== 0) {
    throw new WireError(`The frame has flags ${view.getUint8(7)}, expected 0.`);
  }
  const dtype = view.getUint8(32);
  if (!isDType(dtype)) {
    throw new WireError(
      `The frame has element type ${dtype}, expected 0 (f32), 1 (f16), 2 (bf16) or 3 (i32).`,
    );
  }
  if (view.getUint8(33) !== 0) {
    throw new WireError(`The frame's reserved byte is ${view.getUint8(33)}, expected 0.`);
  }
  const header: FrameHeader = {
    type,
    sequence: view.getUint32(12, true),
    binding: view.getUint32(16, true),
    stage: view.getUint16(20, true),
    rows: view.getUint32(24, true),
    columns: view.getUint32(28, true),
    dtype,
    queueUs: view.getUint16(34, true) * kQueueUnitUs,
    computeUs: view.getUint32(36, true),
  };
  if (type === FrameType.step && (header.queueUs !== 0 || header.computeUs !== 0)) {
    throw new WireError(
      `The step carries times (queue ${header.queueUs} us, compute ${header.computeUs} us), ` +
        `expected 0.`,
    );
  }
  return header;
}

function decodeRuns(view: DataView, afterHeader: number): FrameRun[] {
  const runCount = view.getUint16(22, true);
  if (runCount === 0 || runCount * kRunBytes > afterHeader) {
    throw new WireError(
      `The frame has ${runCount} runs, expected 1 to ${Math.floor(afterHeader / kRunBytes)} ` +
        `that fit in it.`,
    );
  }
  const runs: FrameRun[] = [];
  const sessions = new Set<number>();
  for (let index = 0; index < runCount; ++index) {
    const run = decodeRun(view, kHeaderBytes + index * kRunBytes, index);
    if (sessions.has(run.session)) {
      throw new WireError(
        `Session ${run.session} is named by two runs of a frame, expected one each.`,
      );
    }
    sessions.add(run.session);
    runs.push(run);
  }
  return runs;
}

function decodeRun(view: DataView, at: number, index: number): FrameRun {
  const firstPosition = view.getUint32(at + 8, true);
  const count = view.getUint16(at + 12, true);
  if (count === 0) throw new WireError(`Run ${index} has 0 rows, expected 1 to 65535.`);
  if (firstPosition + count > kMaxU32) {
    throw new WireError(
      `Run ${index} begins at position ${firstPosition} and has ${count} rows, which passes the ` +
        `last position ${kMaxU32}.`,
    );
  }
  const output = view.getUint8(at + 14) & 15;
  if (!isOutputKind(output)) {
    throw new WireError(`Run ${index} asks for output kind ${output}, expected 0 to 5.`);
  }
  const marks = view.getUint8(at + 14) >> 4;
  if (marks > kMaxMarks) {
    throw new WireError(`Run ${index} asks for ${marks} marks, expected at most ${kMaxMarks}.`);
  }
  const candidateByte = view.getUint8(at + 15);
  if (output === OutputKind.draw) {
    if (candidateByte > kMaxTopLogprobs) {
      throw new WireError(
        `Run ${index} asks for ${candidateByte} tokens beside a draw, expected at most ` +
          `${kMaxTopLogprobs}.`,
      );
    }
  } else if (output !== OutputKind.candidates && candidateByte !== 0) {
    throw new WireError(
      `Run ${index} has candidate byte ${candidateByte} though its output is neither candidates ` +
        `nor a draw, expected 0.`,
    );
  }
  return {
    session: view.getUint32(at, true),
    generation: view.getUint32(at + 4, true),
    firstPosition,
    count,
    output,
    candidateCount: output === OutputKind.candidates ? candidateByte + 1 : candidateByte,
    ...(marks > 0 && { marks }),
  };
}

function isOutputKind(value: number): value is OutputKind {
  return value <= OutputKind.draw;
}

function checkStepPayload(header: FrameHeader, payloadBytes: number): void {
  if (header.columns === 0) {
    throw new WireError("The step has 0 columns, expected at least 1.");
  }
  if (header.dtype === DType.i32 && header.columns !== 1) {
    throw new WireError(`The step has ${header.columns} columns of token ids, expected 1.`);
  }
  // The product is at most 2^32 * 4 * 2^32: beyond what a double holds exactly, but then it is
  // never equal.
  const rowBytes = header.columns * elementBytes(header.dtype);
  if (rowBytes * header.rows !== payloadBytes) {
    throw new WireError(
      `The step's payload has ${payloadBytes} bytes, expected ${header.rows} rows of ` +
        `${rowBytes} bytes.`,
    );
  }
}

function checkResultPayload(
  header: FrameHeader,
  runs: readonly FrameRun[],
  payloadBytes: number,
): void {
  const hidden = runs.some((run) => run.output === OutputKind.hidden);
  const selected = runs.some((run) => run.output > OutputKind.hidden);
  if (hidden && selected) {
    throw new WireError("The result mixes hidden rows with other outputs in one frame.");
  }
  if (hidden !== (header.columns !== 0)) {
    throw new WireError(
      `The result has ${header.columns} columns, expected ` +
        (hidden
          ? "at least 1 because it holds hidden rows."
          : "0 because it holds no hidden rows."),
    );
  }
  if (hidden && header.dtype === DType.i32) {
    throw new WireError(
      "The result's hidden rows have element type i32, expected f16, bf16 or f32.",
    );
  }
  // Without the vocabulary only the part in front of the logits is known.
  const known = resultPayloadBytes(runs, header.columns, header.dtype, 0);
  const logitRows = runs.reduce(
    (sum, run) => sum + (run.output === OutputKind.logits ? run.count : 0),
    0,
  );
  const fits =
    logitRows === 0
      ? payloadBytes === known
      : payloadBytes >= known && (payloadBytes - known) % (logitRows * 4) === 0;
  if (!fits) {
    throw new WireError(
      `The result's payload has ${payloadBytes} bytes, expected ${known}` +
        (logitRows === 0 ? "." : " and whole rows of logits."),
    );
  }
}

// Bytes that a result's payload must have for these runs.
export function resultPayloadBytes(
  runs: readonly FrameRun[],
  columns: number,
  dtype: DType,
  vocabulary: number,
): number {
  let total = 0;
  for (const run of runs) {
    if (run.output === OutputKind.hidden) total += run.count * columns * elementBytes(dtype);
    else if (run.output === OutputKind.argmax) total += 12;
    else if (run.output === OutputKind.candidates) total += 12 + 8 * run.candidateCount;
    else if (run.output === OutputKind.draw) total += 12 + 8 * run.candidateCount;
    else if (run.output === OutputKind.logits) total += run.count * vocabulary * 4;
  }
  return total;
}
