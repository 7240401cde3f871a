// Inputs of the fuzzers of the C++ decoders, read by the decoders here: whatever the bytes are,
// they are read, or refused with a WireError, and what is read writes the same bytes again.
import { describe, expect, it } from "vitest";

import {
  WireError,
  decodeFork,
  decodeFrame,
  decodeWholeFrame,
  decodeServerMessage,
  decodeShardMessage,
  encodeFork,
  encodeFrame,
  encodeWholeFrame,
  encodeShardMessage,
} from "./index.ts";
import { corpusOf, hostileForms } from "./test/corpus.ts";

const inputs = new Map([
  ...corpusOf("frame_fuzz"),
  ...corpusOf("expert_frame_fuzz"),
  ...corpusOf("control_fuzz"),
]);

// How many forms of all inputs are read.
function readWith(decode: (message: Uint8Array) => Uint8Array | null): number {
  let read = 0;
  for (const [name, bytes] of inputs) {
    for (const form of hostileForms(bytes, 60)) {
      try {
        const again = decode(form);
        if (again !== null && Buffer.compare(again, form) !== 0) {
          expect.fail(`${name}: ${Buffer.from(form).toString("hex")} is written otherwise`);
        }
        ++read;
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
      }
    }
  }
  return read;
}

describe("hostile bytes are read or refused with a sentence", () => {
  it("as data frames", () => {
    const read = readWith((message) => {
      const { header, runs, payload } = decodeFrame(message);
      return encodeFrame(header, runs, payload);
    });
    expect(read).toBeGreaterThan(100);
  });

  it("as shard messages", () => {
    const read = readWith((message) => {
      const { peer, frames } = decodeShardMessage(message);
      return encodeShardMessage(peer, frames);
    });
    expect(read).toBeGreaterThan(100);
  });

  it("as whole-model and fork frames", () => {
    // Fields that a type has no use for may hold anything, and are written as 0.
    const whole = readWith((message) => {
      const once = encodeWholeFrame(decodeWholeFrame(message));
      expect(encodeWholeFrame(decodeWholeFrame(once))).toEqual(once);
      return null;
    });
    expect(whole).toBeGreaterThan(10);
    expect(readWith((message) => encodeFork(decodeFork(message)))).toBeGreaterThan(1);
  });

  it("as control messages", () => {
    const read = readWith((message) => {
      const prefixed = new Uint8Array(message.length + 1);
      prefixed[0] = 1;
      prefixed.set(message, 1);
      decodeServerMessage(prefixed);
      return null; // several bytes mean the same
    });
    expect(read).toBeGreaterThan(10);
  });
});
