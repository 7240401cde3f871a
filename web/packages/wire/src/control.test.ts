// Control messages: bytes written by hand from the field numbers of control.proto, and bad bytes.
import { describe, expect, it } from "vitest";

import { decodeServerMessage, encodeWorkerMessage } from "./index.ts";
import { decodeWorkerMessage, encodeServerMessage } from "./test/orchestrator.ts";

describe("control messages", () => {
  it("have the field numbers of control.proto", () => {
    // ServerMessage.ping = 10 (length-delimited), Ping.nonce = 1 (varint 300).
    const ping = Uint8Array.of(0x01, (10 << 3) | 2, 3, 0x08, 0xac, 0x02);
    const message = decodeServerMessage(ping);
    expect(message.kind.case).toBe("ping");
    expect(message.kind.case === "ping" && message.kind.value.nonce).toBe(300n);
    expect(encodeServerMessage({ case: "ping", value: { nonce: 300n } })).toEqual(ping);
    // WorkerMessage.pong = 10, Pong.nonce = 1.
    expect(encodeWorkerMessage({ case: "pong", value: { nonce: 300n } })).toEqual(ping);
    // WorkerMessage.step_failed = 8: sequence 5, binding 2, stage 1, code "x".
    expect(
      encodeWorkerMessage({
        case: "stepFailed",
        value: { sequence: 5, binding: 2, stage: 1, code: "x" },
      }),
    ).toEqual(Uint8Array.of(0x01, (8 << 3) | 2, 9, 0x08, 5, 0x10, 2, 0x18, 1, 0x22, 1, 0x78));
  });

  it("come back as they were sent", () => {
    const bytes = encodeWorkerMessage({
      case: "prepared",
      value: { binding: 3, weightFactor: 1.25, usedBytes: 1n << 40n },
    });
    const message = decodeWorkerMessage(bytes);
    expect(message.kind.case).toBe("prepared");
    if (message.kind.case !== "prepared") return;
    expect(message.kind.value.weightFactor).toBe(1.25);
    expect(message.kind.value.usedBytes).toBe(1n << 40n);
  });

  it("are refused when they do not parse", () => {
    expect(() => decodeServerMessage(Uint8Array.of(0x57, 0, 0))).toThrow("begins with byte 87");
    expect(() => decodeServerMessage(new Uint8Array(0))).toThrow("begins with byte none");
    expect(() => decodeServerMessage(Uint8Array.of(0x01, 0x52, 0xff))).toThrow("cannot be parsed");
  });

  it("of an unknown kind have no case", () => {
    // Field 99 of ServerMessage, length 0.
    expect(decodeServerMessage(Uint8Array.of(0x01, 0x9a, 0x06, 0)).kind.case).toBeUndefined();
  });
});
