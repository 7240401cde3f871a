// Fork frames: in the layers of a binding, a session begins as what another one holds up to a
// position. The layout is documented in src/wire/fork_frame.h; this is its other implementation,
// held together by tests/golden/forks.json.
import { WireError } from "./error.ts";
import { kProtocolVersion } from "./version.ts";

const kMagic = 0x4b524657; // "WFRK"
const kForkBytes = 32;

export interface ForkFrame {
  readonly binding: number;
  readonly stage: number;
  readonly from: number;
  readonly session: number; // the one that begins
  readonly generation: number; // its, above those in which the layers know it
  readonly positionCount: number; // at least 1
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

// Whether the message is one of these rather than a data frame.
export function isForkFrame(message: Uint8Array): boolean {
  return message.length >= 4 && viewOf(message).getUint32(0, true) === kMagic;
}

export function encodeFork(fork: ForkFrame): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(kForkBytes);
  const view = viewOf(bytes);
  view.setUint32(0, kMagic, true);
  view.setUint16(4, kProtocolVersion, true);
  view.setUint32(8, fork.binding, true);
  view.setUint16(12, fork.stage, true);
  view.setUint32(16, fork.from, true);
  view.setUint32(20, fork.session, true);
  view.setUint32(24, fork.generation, true);
  view.setUint32(28, fork.positionCount, true);
  return bytes;
}

// Throws WireError with the field, its value and what was expected.
export function decodeFork(message: Uint8Array): ForkFrame {
  if (message.length !== kForkBytes || !isForkFrame(message)) {
    throw new WireError(
      `The message is no fork frame: it has ${message.length} bytes, expected ${kForkBytes} ` +
        `that begin with "WFRK".`,
    );
  }
  const view = viewOf(message);
  const version = view.getUint16(4, true);
  if (version !== kProtocolVersion) {
    throw new WireError(
      `The fork frame has protocol version ${version}, expected ${kProtocolVersion}.`,
    );
  }
  for (const zero of [6, 14]) {
    const value = view.getUint16(zero, true);
    if (value === 0) continue;
    throw new WireError(`The fork frame has ${value} at byte ${zero}, expected 0.`);
  }
  const [from, session] = [view.getUint32(16, true), view.getUint32(20, true)];
  const positionCount = view.getUint32(28, true);
  if (from === session) {
    throw new WireError(
      `The fork frame shares session ${from} with itself, expected another one.`,
    );
  }
  if (positionCount === 0) {
    throw new WireError("The fork frame shares 0 positions, expected at least 1.");
  }
  return {
    binding: view.getUint32(8, true),
    stage: view.getUint16(12, true),
    from,
    session,
    generation: view.getUint32(24, true),
    positionCount,
  };
}
