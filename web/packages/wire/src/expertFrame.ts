// Shard messages: rows for the experts that a tab holds, and their results; as a hub, rows for the
// server and its answers. The layout is that of src/wire/expert_frame.h; this is its other
// implementation, held together by tests/golden/expert_frames.json. Channels and datagrams are not
// for tabs.
import { WireError } from "./error.ts";
import { checkIntegerRow, integerRowBytes } from "./integerRow.ts";

export const kShardByte = 0x02; // first byte of the message
const kShardHeadBytes = 5;
const kHeaderBytes = 28;
const kVersion = 2;
const kMagic = 0x4d6f4578; // "MoEx", in order
const kHeartbeatBytes = 20;
const kMaxFrames = 1024;
const kMaxTokens = 65536;
export const kMaxRowBytes = 60 * 2 ** 20; // of a message
const kMaxFailureBytes = 1024;
const Flag = { sameRows: 2, failed: 8, sum: 16, best: 64, takesSteps: 128 } as const;

export const kBatchBit = 0x80000000;
export const kAnyExpert = 0xffff;

export const ExpertFrameType = {
  dispatch: 1,
  result: 2,
  cancel: 3,
  heartbeat: 4,
  rows: 8,
  given: 9,
} as const;
export type ExpertFrameType = (typeof ExpertFrameType)[keyof typeof ExpertFrameType];

// What rows are made of.
export const RowType = { f32: 5, f16: 6, steps: 7, integers: 8 } as const;
export type RowType = (typeof RowType)[keyof typeof RowType];

// What answers to rows of this type have.
export function answerTypeOf(asked: RowType): RowType {
  return asked === RowType.integers ? RowType.f32 : asked;
}

// Of answers, which are never integers.
export function elementBytesOf(type: RowType): number {
  if (type === RowType.steps) return 3;
  return type === RowType.f16 ? 2 : 4;
}

function rowBytesOf(type: RowType, columns: number): number {
  return type === RowType.integers ? integerRowBytes(columns) : columns * elementBytesOf(type);
}

const kDispatchTypes: readonly number[] = [RowType.f32, RowType.f16, RowType.integers];
const kResultTypes: readonly number[] = [RowType.f32, RowType.f16, RowType.steps];

// What rows of a frame may be made of, and the same in words.
function rowTypesOf(type: ExpertFrameType): readonly [readonly number[], string] {
  if (type === ExpertFrameType.dispatch) {
    return [kDispatchTypes, "5 (f32) or 6 (f16), or 8 (integers)"];
  }
  if (type === ExpertFrameType.result) {
    return [kResultTypes, "5 (f32) or 6 (f16), or 7 (steps)"];
  }
  return [[RowType.f32], "5 (f32)"];
}

function rowTypeOf(code: number, type: ExpertFrameType): RowType {
  const [known, words] = rowTypesOf(type);
  if (known.includes(code)) return code as RowType;
  throw new WireError(`Its rows have element type ${code}, expected ${words}.`);
}

const kTypeNames: Readonly<Record<ExpertFrameType, string>> = {
  [ExpertFrameType.dispatch]: "dispatch",
  [ExpertFrameType.result]: "result",
  [ExpertFrameType.cancel]: "cancel",
  [ExpertFrameType.heartbeat]: "heartbeat",
  [ExpertFrameType.rows]: "row message",
  [ExpertFrameType.given]: "row message's answer",
};

function isKnown(type: number): type is ExpertFrameType {
  return type in kTypeNames;
}

// Columns of a route of so many slots: their experts, then their weights.
export function routeColumnsOf(slots: number): number {
  return 2 * slots;
}

export interface ExpertFrame {
  readonly type: ExpertFrameType;
  readonly sequence: number;
  readonly layer: number;
  readonly expert: number; // of `rows` and `given`: slots of a row
  readonly tokens: number;
  readonly hidden: number;
  readonly sameRows: boolean; // `rows` are those of the frame before, and are not sent again
  readonly failed: boolean; // of a result or the server's answer: `body` is a sentence
  readonly maySum: boolean; // of a dispatch: its result may have others of the same rows in it
  readonly takesSteps: boolean; // of a dispatch: its result may be in steps of a grid
  readonly best: boolean; // of a dispatch: wanted of each row are the two best of the range
  readonly added: readonly number[]; // of a result that is a sum: the other experts in it, rising
  readonly rowType: RowType; // of a result answerTypeOf its dispatch's, or steps
  readonly rows: Uint8Array; // [tokens, hidden] of rowType, of `rows` each with its route behind it
  readonly body: Uint8Array; // of frames without a tensor
}

export interface ShardMessage {
  readonly peer: number;
  readonly frames: readonly ExpertFrame[];
}

const kNothing = new Uint8Array(0);
const kBare = {
  sequence: 0,
  layer: 0,
  expert: 0,
  tokens: 0,
  hidden: 0,
  sameRows: false,
  failed: false,
  maySum: false,
  takesSteps: false,
  best: false,
  added: [],
  rowType: RowType.f32,
  rows: kNothing,
  body: kNothing,
} as const;

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function hasTensor(type: ExpertFrameType, failed: boolean): boolean {
  if (type === ExpertFrameType.dispatch || type === ExpertFrameType.rows) return true;
  return (type === ExpertFrameType.result || type === ExpertFrameType.given) && !failed;
}

function addedBytes(added: readonly number[]): Uint8Array {
  if (added.length === 0) return kNothing;
  const view = new DataView(new ArrayBuffer(2 * added.length + 2));
  for (const [i, expert] of added.entries()) view.setUint16(2 * i, expert, true);
  view.setUint16(2 * added.length, added.length, true);
  return new Uint8Array(view.buffer);
}

// The experts that a result names behind its rows, and how many bytes that takes.
function addedOf(first: number, payload: Uint8Array): { added: number[]; byteCount: number } {
  const view = viewOf(payload);
  const size = payload.length;
  const count = size < 2 ? 0 : view.getUint16(size - 2, true);
  const byteCount = 2 * (count + 1);
  if (count === 0 || byteCount > size) {
    throw new WireError(
      `It is a sum of ${count} more experts in a payload of ${size} bytes, expected at least ` +
        `1 that it names.`,
    );
  }
  const added: number[] = [];
  let before = first;
  for (let at = size - byteCount; at < size - 2; at += 2) {
    const expert = view.getUint16(at, true);
    if (expert <= before) {
      throw new WireError(
        `It is a sum that names expert ${expert} after ${before}, expected rising numbers.`,
      );
    }
    added.push(expert);
    before = expert;
  }
  return { added, byteCount };
}

function payloadOf(frame: ExpertFrame): readonly Uint8Array[] {
  if (!hasTensor(frame.type, frame.failed)) return [frame.body];
  if (frame.sameRows) return [];
  return [frame.rows, addedBytes(frame.added)];
}

function writeHeader(at: DataView, frame: ExpertFrame, payloadBytes: number): void {
  const tensor = hasTensor(frame.type, frame.failed);
  at.setUint32(0, kMagic, false);
  at.setUint16(4, kVersion, true);
  at.setUint16(6, frame.type, true);
  at.setUint32(8, payloadBytes, true);
  at.setUint32(12, frame.sequence, true);
  at.setUint16(16, frame.layer, true);
  at.setUint16(18, frame.expert, true);
  at.setUint32(20, frame.tokens, true);
  at.setUint16(24, frame.hidden, true);
  at.setUint8(26, tensor ? frame.rowType : 0);
  const flags =
    (frame.sameRows ? Flag.sameRows : 0) |
    (frame.maySum || frame.added.length > 0 ? Flag.sum : 0) |
    (frame.best ? Flag.best : 0) |
    (frame.takesSteps ? Flag.takesSteps : 0) |
    (frame.failed ? Flag.failed : 0);
  at.setUint8(27, flags);
}

// REQUIRES: 1 to 1,024 frames of the layout.
export function encodeShardMessage(
  peer: number,
  frames: readonly ExpertFrame[],
): Uint8Array<ArrayBuffer> {
  const payloads = frames.map(payloadOf);
  const lengths = payloads.map((parts) => parts.reduce((sum, part) => sum + part.length, 0));
  const bytes = new Uint8Array(
    lengths.reduce((sum, length) => sum + kHeaderBytes + length, kShardHeadBytes),
  );
  const view = viewOf(bytes);
  view.setUint8(0, kShardByte);
  view.setUint32(1, peer, true);
  let at = kShardHeadBytes;
  for (const [i, frame] of frames.entries()) {
    writeHeader(new DataView(bytes.buffer, at, kHeaderBytes), frame, lengths[i]!);
    at += kHeaderBytes;
    for (const part of payloads[i]!) {
      bytes.set(part, at);
      at += part.length;
    }
  }
  return bytes;
}

export function isShardMessage(message: Uint8Array): boolean {
  return message[0] === kShardByte;
}

function checkFlags(type: ExpertFrameType, flags: number): void {
  let known = 0;
  if (type === ExpertFrameType.dispatch) {
    known = Flag.sameRows | Flag.sum | Flag.best | Flag.takesSteps;
  }
  if (type === ExpertFrameType.result) {
    known = flags & Flag.failed ? Flag.failed : Flag.sum;
  }
  if (type === ExpertFrameType.given) known = Flag.failed;
  if (flags & ~known) {
    throw new WireError(
      `It is a ${kTypeNames[type]} with flags ${flags}, expected none but those of ${known}.`,
    );
  }
}

function checkBody(frame: ExpertFrame, dtypeCode: number, payload: Uint8Array): void {
  const { type, layer, expert } = frame;
  const name = kTypeNames[type];
  if (frame.tokens !== 0 || frame.hidden !== 0 || dtypeCode !== 0) {
    throw new WireError(
      `It is a ${name}${frame.failed ? " that failed" : ""} with ${frame.tokens} tokens of ` +
        `${frame.hidden} columns and element type ${dtypeCode}, expected 0 of each.`,
    );
  }
  if (type === ExpertFrameType.heartbeat && (layer !== 0 || expert !== 0)) {
    throw new WireError(
      `It is a ${name} of layer ${layer} and expert ${expert}, expected 0 and 0.`,
    );
  }
  let [least, most] = [0, 0];
  if (frame.failed) [least, most] = [1, kMaxFailureBytes];
  if (type === ExpertFrameType.heartbeat) least = most = kHeartbeatBytes;
  if (payload.length < least || payload.length > most) {
    throw new WireError(
      `It is a ${name} with ${payload.length} bytes of payload, expected ${least}` +
        (least === most ? "." : ` to ${most}.`),
    );
  }
}

class Decoder {
  readonly #message: Uint8Array;
  readonly #view: DataView;
  #at = kShardHeadBytes;
  #rowBytes = 0;

  constructor(message: Uint8Array) {
    this.#message = message;
    this.#view = viewOf(message);
  }

  frames(): ExpertFrame[] {
    const frames: ExpertFrame[] = [];
    while (this.#at < this.#message.length || frames.length === 0) {
      if (frames.length === kMaxFrames) {
        throw new WireError(
          `The shard message has more than ${kMaxFrames} frames, expected at most that many.`,
        );
      }
      try {
        frames.push(this.#next(frames.at(-1)));
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        throw new WireError(
          `Frame ${frames.length} of the shard message is refused. ${error.message}`,
        );
      }
    }
    return frames;
  }

  #next(before: ExpertFrame | undefined): ExpertFrame {
    const left = this.#message.length - this.#at;
    if (left < kHeaderBytes) {
      throw new WireError(`It has ${left} bytes, expected at least ${kHeaderBytes}.`);
    }
    const at = this.#at;
    const view = this.#view;
    if (view.getUint32(at, false) !== kMagic) {
      const begins = view.getUint32(at, false).toString(16).padStart(8, "0");
      throw new WireError(
        `It begins with the bytes ${begins}, expected 4d6f4578 ("MoEx").`,
      );
    }
    const version = view.getUint16(at + 4, true);
    if (version !== kVersion) {
      throw new WireError(`It has version ${version}, expected ${kVersion}.`);
    }
    const type = view.getUint16(at + 6, true);
    if (!isKnown(type)) throw new WireError(`It has type ${type}, expected 1 to 4, 8 or 9.`);
    const payloadBytes = view.getUint32(at + 8, true);
    if (payloadBytes > left - kHeaderBytes) {
      throw new WireError(
        `It announces ${payloadBytes} bytes of payload, expected at most the ` +
          `${left - kHeaderBytes} that follow.`,
      );
    }
    const from = at + kHeaderBytes;
    this.#at = from + payloadBytes;
    return this.#frame(at, type, before);
  }

  // Of the payload that ends where the next frame begins.
  #frame(at: number, type: ExpertFrameType, before: ExpertFrame | undefined): ExpertFrame {
    const view = this.#view;
    const payload = this.#message.subarray(at + kHeaderBytes, this.#at);
    const [dtypeCode, flags] = [view.getUint8(at + 26), view.getUint8(at + 27)];
    checkFlags(type, flags);
    const frame: ExpertFrame = {
      ...kBare,
      type,
      sequence: view.getUint32(at + 12, true),
      layer: view.getUint16(at + 16, true),
      expert: view.getUint16(at + 18, true),
      tokens: view.getUint32(at + 20, true),
      hidden: view.getUint16(at + 24, true),
      failed: (flags & Flag.failed) !== 0,
    };
    if (!hasTensor(type, frame.failed)) {
      checkBody(frame, dtypeCode, payload);
      return { ...frame, body: payload };
    }
    const rowType = rowTypeOf(dtypeCode, type);
    if (rowType === RowType.f16 && flags & ~Flag.sameRows) {
      throw new WireError(
        `It has rows of f16 and flags ${flags}, expected none but those of ${Flag.sameRows}.`,
      );
    }
    return this.#tensor({ ...frame, rowType }, flags, payload, before);
  }

  #tensor(
    bare: ExpertFrame,
    flags: number,
    whole: Uint8Array,
    before: ExpertFrame | undefined,
  ): ExpertFrame {
    const { tokens, hidden, rowType } = bare;
    if (tokens === 0 || tokens > kMaxTokens || hidden === 0) {
      throw new WireError(
        `It has ${tokens} tokens of ${hidden} columns, expected 1 to ${kMaxTokens} tokens ` +
          `of at least 1 column.`,
      );
    }
    const slots = bare.type === ExpertFrameType.rows ? bare.expert : 0;
    const rowBytes = tokens * rowBytesOf(rowType, hidden + routeColumnsOf(slots));
    // The answers to integers are longer than these.
    const answerBytes = tokens * hidden * elementBytesOf(answerTypeOf(rowType));
    this.#rowBytes += Math.max(rowBytes, answerBytes);
    if (this.#rowBytes > kMaxRowBytes) {
      throw new WireError(
        `With it the message holds rows of ${this.#rowBytes} bytes, expected at most ` +
          `${kMaxRowBytes}.`,
      );
    }
    const { added, byteCount } =
      flags & Flag.sum && bare.type === ExpertFrameType.result
        ? addedOf(bare.expert, whole)
        : { added: [], byteCount: 0 };
    const maySum = (flags & Flag.sum) !== 0 && bare.type === ExpertFrameType.dispatch;
    const best = (flags & Flag.best) !== 0;
    const takesSteps = (flags & Flag.takesSteps) !== 0;
    const frame: ExpertFrame = { ...bare, added, maySum, best, takesSteps };
    const rows = whole.subarray(0, whole.length - byteCount);
    const sameRows = (flags & Flag.sameRows) !== 0;
    const expected = sameRows ? 0 : rowBytes;
    if (rows.length !== expected) {
      const why = sameRows ? " as it repeats those before it." : ".";
      throw new WireError(`Its rows have ${rows.length} bytes, expected ${expected}${why}`);
    }
    if (!sameRows) {
      for (let at = 0; rowType === RowType.integers && at < rowBytes; at += rowBytes / tokens) {
        checkIntegerRow(rows.subarray(at, at + rowBytes / tokens), hidden);
      }
      return { ...frame, rows };
    }
    if (
      before?.type !== ExpertFrameType.dispatch ||
      before.sequence !== frame.sequence ||
      before.layer !== frame.layer ||
      before.tokens !== tokens ||
      before.hidden !== hidden ||
      before.rowType !== rowType
    ) {
      throw new WireError(
        "It repeats the rows before it, expected a dispatch there with the same sequence, " +
          "layer, tokens, columns and element type.",
      );
    }
    return { ...frame, rows: before.rows, sameRows };
  }
}

// Throws WireError that names the frame, the field, its value and what was expected. Rows share the
// message.
export function decodeShardMessage(message: Uint8Array): ShardMessage {
  if (!isShardMessage(message)) {
    throw new WireError(
      `The message begins with ${message[0] ?? "nothing"}, expected 2 as a shard message does.`,
    );
  }
  if (message.length < kShardHeadBytes + kHeaderBytes) {
    throw new WireError(
      `The shard message has ${message.length} bytes, expected at least ` +
        `${kShardHeadBytes + kHeaderBytes}.`,
    );
  }
  return { peer: viewOf(message).getUint32(1, true), frames: new Decoder(message).frames() };
}

// Whom a shard message is from; null where it is too short to say.
export function shardPeerOf(message: Uint8Array): number | null {
  return message.length < kShardHeadBytes ? null : viewOf(message).getUint32(1, true);
}

export interface Heartbeat {
  readonly waiting: number; // dispatches, the one under way included
  readonly computeUs: number; // median of the recent ones
  readonly heldBytes: number;
  readonly maxMessageBytes: number;
}

export function heartbeatFrame(heartbeat: Heartbeat): ExpertFrame {
  const body = new Uint8Array(kHeartbeatBytes);
  const view = viewOf(body);
  view.setUint32(0, heartbeat.waiting, true);
  view.setUint32(4, heartbeat.computeUs, true);
  view.setBigUint64(8, BigInt(heartbeat.heldBytes), true);
  view.setUint32(16, heartbeat.maxMessageBytes, true);
  return { ...kBare, type: ExpertFrameType.heartbeat, body };
}

// Its rows have as many columns as they have bytes for.
export function resultFrame(dispatch: ExpertFrame, rows: Uint8Array): ExpertFrame {
  const { sequence, layer, expert, tokens } = dispatch;
  const type = ExpertFrameType.result;
  const rowType = answerTypeOf(dispatch.rowType);
  const hidden = rows.length / tokens / elementBytesOf(rowType);
  return { ...kBare, type, sequence, layer, expert, tokens, hidden, rowType, rows };
}

// A dispatch that cannot be computed; what is too long of the sentence is cut off.
export function failedResult(dispatch: ExpertFrame, sentence: string): ExpertFrame {
  const { sequence, layer, expert } = dispatch;
  const body = new TextEncoder().encode(sentence).subarray(0, kMaxFailureBytes);
  return { ...kBare, type: ExpertFrameType.result, sequence, layer, expert, failed: true, body };
}

// Rows that a hub leaves to the server: each has its route of so many slots behind it.
export interface HubRows {
  readonly sequence: number;
  readonly layer: number;
  readonly slots: number; // 0: the rows are for all neuron groups of the layer
  readonly tokens: number;
  readonly hidden: number;
  readonly rows: Float32Array; // [tokens, hidden + routeColumnsOf(slots)]
}

// REQUIRES: rows of that shape, within the limits of a message.
export function rowsFrame({ slots, rows, ...rest }: HubRows): ExpertFrame {
  const bytes = new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength);
  return { ...kBare, ...rest, type: ExpertFrameType.rows, expert: slots, rows: bytes };
}

// Nobody waits for these any more.
export function cancelFrame(sequence: number, layer: number, expert: number): ExpertFrame {
  return { ...kBare, type: ExpertFrameType.cancel, sequence, layer, expert };
}

// Rows of f32, copied: a message is not aligned.
export function floatRowsOf({ rows }: ExpertFrame): Float32Array<ArrayBuffer> {
  return new Float32Array(rows.slice().buffer);
}
