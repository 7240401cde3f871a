// Frames that ask for tokens of the whole model. The layout is documented in
// src/wire/whole_frame.h; this is its other implementation, held together by
// tests/golden/whole_frames.json.
import { WireError } from "./error.ts";
import { kProtocolVersion } from "./version.ts";

const kMagic = 0x4e454757; // "WGEN"
const kHeadBytes = 16;
const kGenerateBytes = 80;
const kTokensBytes = 24;
const kValueBytes = 20;
const kMaxText = 512; // bytes
const Type = { generate: 1, tokens: 2, stop: 3, runHere: 4, wholeModel: 5 } as const;

// Up to `count` tokens after `token`, the session's last, which no layer has seen.
export interface GenerateFrame {
  readonly kind: "generate";
  readonly sequence: number;
  readonly binding: number;
  readonly session: number;
  readonly generation: number;
  readonly position: number;
  readonly token: number;
  readonly count: number;
  readonly interval: number; // tokens in one answer, at most
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly seed: bigint;
  readonly stopTokens: readonly number[];
  readonly biases: readonly (readonly [number, number])[]; // token, bias
  readonly seen: readonly (readonly [number, number])[]; // token, how often
}

export interface TokensFrame {
  readonly kind: "tokens";
  readonly sequence: number;
  readonly binding: number;
  readonly isLast: boolean;
  readonly computeUs: number;
  readonly tokens: readonly number[];
}

// Nobody wants the rest of a Generate.
export interface StopFrame {
  readonly kind: "stop";
  readonly sequence: number;
  readonly binding: number;
}

// A worker says that its user wants it to run the whole model, or not any longer.
export interface RunHereFrame {
  readonly kind: "runHere";
  readonly isWanted: boolean;
  readonly apiKey: string; // shows that the user may; empty: it has none
}

// A worker is told whether it may be asked to; `asked`: it was, and the swarm's owner is asked.
export const WholeModel = { tooLarge: 0, fits: 1, here: 2, asked: 3 } as const;
export type WholeModel = (typeof WholeModel)[keyof typeof WholeModel];
export interface WholeModelFrame {
  readonly kind: "wholeModel";
  readonly state: WholeModel;
  readonly message: string; // why it is so, for the user; mostly empty
}

export type WholeFrame =
  | GenerateFrame
  | TokensFrame
  | StopFrame
  | RunHereFrame
  | WholeModelFrame;

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

// Whether the message is one of these rather than a data frame.
export function isWholeFrame(message: Uint8Array): boolean {
  return message.length >= kHeadBytes && viewOf(message).getUint32(0, true) === kMagic;
}

function begun(byteCount: number, type: number, sequence: number, binding: number): DataView {
  const view = new DataView(new ArrayBuffer(byteCount));
  view.setUint32(0, kMagic, true);
  view.setUint16(4, kProtocolVersion, true);
  view.setUint8(6, type);
  view.setUint32(8, sequence, true);
  view.setUint32(12, binding, true);
  return view;
}

function bytesOf(view: DataView): Uint8Array<ArrayBuffer> {
  return new Uint8Array(view.buffer as ArrayBuffer);
}

function encodeGenerate(frame: GenerateFrame): DataView {
  const { stopTokens, biases, seen } = frame;
  const byteCount =
    kGenerateBytes + 4 * stopTokens.length + 8 * biases.length + 8 * seen.length;
  const view = begun(byteCount, Type.generate, frame.sequence, frame.binding);
  view.setUint32(16, frame.session, true);
  view.setUint32(20, frame.generation, true);
  view.setUint32(24, frame.position, true);
  view.setInt32(28, frame.token, true);
  view.setUint16(32, frame.count, true);
  view.setUint16(34, frame.interval, true);
  view.setFloat32(36, frame.temperature, true);
  view.setUint32(40, frame.topK, true);
  view.setFloat32(44, frame.topP, true);
  view.setFloat32(48, frame.minP, true);
  view.setFloat32(52, frame.repetitionPenalty, true);
  view.setFloat32(56, frame.presencePenalty, true);
  view.setFloat32(60, frame.frequencyPenalty, true);
  view.setBigUint64(64, frame.seed, true);
  view.setUint16(72, stopTokens.length, true);
  view.setUint16(74, biases.length, true);
  view.setUint32(76, seen.length, true);
  let at = kGenerateBytes;
  for (const token of stopTokens) {
    view.setInt32(at, token, true);
    at += 4;
  }
  for (const [token, bias] of biases) {
    view.setInt32(at, token, true);
    view.setFloat32(at + 4, bias, true);
    at += 8;
  }
  for (const [token, count] of seen) {
    view.setInt32(at, token, true);
    view.setUint32(at + 4, count, true);
    at += 8;
  }
  return view;
}

function encodeTokens(frame: TokensFrame): DataView {
  const { tokens, sequence, binding } = frame;
  const view = begun(kTokensBytes + 4 * tokens.length, Type.tokens, sequence, binding);
  view.setUint16(16, tokens.length, true);
  view.setUint8(18, frame.isLast ? 1 : 0);
  view.setUint32(20, Math.min(Math.floor(frame.computeUs), 0xffffffff), true);
  for (const [i, token] of tokens.entries()) view.setInt32(kTokensBytes + 4 * i, token, true);
  return view;
}

function encodeValue(type: number, value: number, text: string): Uint8Array<ArrayBuffer> {
  const utf8 = new TextEncoder().encode(text);
  if (utf8.length > kMaxText) {
    throw new WireError(`The text has ${utf8.length} bytes, expected at most ${kMaxText}.`);
  }
  const view = begun(kValueBytes + utf8.length, type, 0, 0);
  view.setUint32(16, value, true);
  const bytes = bytesOf(view);
  bytes.set(utf8, kValueBytes);
  return bytes;
}

export function encodeWholeFrame(frame: WholeFrame): Uint8Array<ArrayBuffer> {
  switch (frame.kind) {
    case "generate":
      return bytesOf(encodeGenerate(frame));
    case "tokens":
      return bytesOf(encodeTokens(frame));
    case "stop":
      return bytesOf(begun(kValueBytes, Type.stop, frame.sequence, frame.binding));
    case "runHere":
      return encodeValue(Type.runHere, frame.isWanted ? 1 : 0, frame.apiKey);
    case "wholeModel":
      return encodeValue(Type.wholeModel, frame.state, frame.message);
  }
}

function checkLength(view: DataView, expected: number, isAtLeast = false): void {
  if (isAtLeast ? view.byteLength >= expected : view.byteLength === expected) return;
  throw new WireError(
    `The whole-model frame has ${view.byteLength} bytes, expected ${expected}.`,
  );
}

function decodeGenerate(view: DataView, sequence: number, binding: number): GenerateFrame {
  checkLength(view, kGenerateBytes, true);
  const stopCount = view.getUint16(72, true);
  const biasCount = view.getUint16(74, true);
  const seenCount = view.getUint32(76, true);
  checkLength(view, kGenerateBytes + 4 * stopCount + 8 * biasCount + 8 * seenCount);
  const [count, interval] = [view.getUint16(32, true), view.getUint16(34, true)];
  const token = view.getInt32(28, true);
  if (count === 0 || interval === 0 || token < 0) {
    throw new WireError(
      `Generate asks for ${count} tokens by ${interval} after token ${token}, expected at least ` +
        `1 of each after a token of the vocabulary.`,
    );
  }
  const biasesAt = kGenerateBytes + 4 * stopCount;
  const seenAt = biasesAt + 8 * biasCount;
  const places = (from: number, length: number, step: number): number[] =>
    Array.from({ length }, (_, i) => from + step * i);
  return {
    kind: "generate",
    sequence,
    binding,
    session: view.getUint32(16, true),
    generation: view.getUint32(20, true),
    position: view.getUint32(24, true),
    token,
    count,
    interval,
    temperature: view.getFloat32(36, true),
    topK: view.getUint32(40, true),
    topP: view.getFloat32(44, true),
    minP: view.getFloat32(48, true),
    repetitionPenalty: view.getFloat32(52, true),
    presencePenalty: view.getFloat32(56, true),
    frequencyPenalty: view.getFloat32(60, true),
    seed: view.getBigUint64(64, true),
    stopTokens: places(kGenerateBytes, stopCount, 4).map((at) => view.getInt32(at, true)),
    biases: places(biasesAt, biasCount, 8).map(
      (at) => [view.getInt32(at, true), view.getFloat32(at + 4, true)] as const,
    ),
    seen: places(seenAt, seenCount, 8).map(
      (at) => [view.getInt32(at, true), view.getUint32(at + 4, true)] as const,
    ),
  };
}

function decodeTokens(view: DataView, sequence: number, binding: number): TokensFrame {
  checkLength(view, kTokensBytes, true);
  const count = view.getUint16(16, true);
  checkLength(view, kTokensBytes + 4 * count);
  const [last, zero] = [view.getUint8(18), view.getUint8(19)];
  if (last > 1 || zero !== 0) {
    throw new WireError(
      `Tokens has the bytes ${last} and ${zero} after its count, expected 0 or 1 and 0.`,
    );
  }
  const tokens = Array.from({ length: count }, (_, i) =>
    view.getInt32(kTokensBytes + 4 * i, true),
  );
  const computeUs = view.getUint32(20, true);
  return { kind: "tokens", sequence, binding, isLast: last === 1, computeUs, tokens };
}

function textOf(message: Uint8Array): string {
  const byteCount = message.length - kValueBytes;
  if (byteCount > kMaxText) {
    throw new WireError(
      `The whole-model frame has a text of ${byteCount} bytes, expected at most ${kMaxText}.`,
    );
  }
  return new TextDecoder().decode(message.subarray(kValueBytes));
}

function valueOf(view: DataView, most: number): number {
  checkLength(view, kValueBytes, most > 0);
  const value = view.getUint32(16, true);
  if (value <= most) return value;
  throw new WireError(
    `The whole-model frame has the value ${value}, expected at most ${most}.`,
  );
}

// Throws WireError with the field, its value and what was expected.
export function decodeWholeFrame(message: Uint8Array): WholeFrame {
  if (!isWholeFrame(message)) {
    throw new WireError(
      `The message is no whole-model frame: it has ${message.length} bytes, expected at least ` +
        `${kHeadBytes} that begin with "WGEN".`,
    );
  }
  const view = viewOf(message);
  const version = view.getUint16(4, true);
  if (version !== kProtocolVersion) {
    throw new WireError(
      `The whole-model frame has protocol version ${version}, expected ${kProtocolVersion}.`,
    );
  }
  const type = view.getUint8(6);
  const [sequence, binding] = [view.getUint32(8, true), view.getUint32(12, true)];
  if (view.getUint8(7) === 0) {
    switch (type) {
      case Type.generate:
        return decodeGenerate(view, sequence, binding);
      case Type.tokens:
        return decodeTokens(view, sequence, binding);
      case Type.stop:
        valueOf(view, 0);
        return { kind: "stop", sequence, binding };
      case Type.runHere:
        return { kind: "runHere", isWanted: valueOf(view, 1) === 1, apiKey: textOf(message) };
      case Type.wholeModel: {
        const state = valueOf(view, WholeModel.asked) as WholeModel;
        return { kind: "wholeModel", state, message: textOf(message) };
      }
    }
  }
  throw new WireError(
    `The whole-model frame has type ${type} and flags ${view.getUint8(7)}, expected 1 to 5 and 0.`,
  );
}
