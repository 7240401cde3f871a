// Shard messages shared with the C++ codec (tests/golden/expert_frames.json, written by a third
// implementation in Python).
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import {
  ExpertFrameType,
  cancelFrame,
  decodeShardMessage,
  encodeShardMessage,
  failedResult,
  floatRowsOf,
  heartbeatFrame,
  isShardMessage,
  kAnyExpert,
  resultFrame,
  rowsFrame,
  shardPeerOf,
} from "./index.ts";
import type { ExpertFrame, RowType } from "./index.ts";

interface GoldenFrame {
  type: keyof typeof ExpertFrameType;
  sequence: number;
  layer: number;
  expert: number;
  tokens: number;
  hidden: number;
  rows: string;
  body: string;
  same_rows: boolean;
  failed: boolean;
  may_sum: boolean;
  added: number[];
  row_type: RowType;
  best: boolean;
  takes_steps: boolean;
}
interface GoldenMessage {
  name: string;
  peer: number;
  frames: GoldenFrame[];
  hex: string;
}

const path = new URL("../../../../tests/golden/expert_frames.json", import.meta.url);
const golden = JSON.parse(readFileSync(fileURLToPath(path), "utf8")) as {
  messages: GoldenMessage[];
  refused: { name: string; hex: string; problem: string }[];
};

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const find = (name: string): GoldenMessage => golden.messages.find((m) => m.name === name)!;

function described(f: GoldenFrame): ExpertFrame {
  return {
    type: ExpertFrameType[f.type],
    sequence: f.sequence,
    layer: f.layer,
    expert: f.expert,
    tokens: f.tokens,
    hidden: f.hidden,
    sameRows: f.same_rows,
    failed: f.failed,
    maySum: f.may_sum,
    added: f.added,
    rowType: f.row_type,
    best: f.best,
    takesSteps: f.takes_steps,
    rows: bytesOf(f.rows),
    body: bytesOf(f.body),
  };
}

describe("shard messages", () => {
  it.each(golden.messages.map((message) => [message.name, message] as const))(
    "%s is the golden bytes",
    (_, message) => {
      const frames = message.frames.map(described);
      expect(hexOf(encodeShardMessage(message.peer, frames))).toBe(message.hex);
      expect(isShardMessage(bytesOf(message.hex))).toBe(true);
      expect(decodeShardMessage(bytesOf(message.hex))).toEqual({ peer: message.peer, frames });
    },
  );

  it.each(golden.refused.map((r) => [r.name, r] as const))("refuses %s", (_, refused) => {
    expect(() => decodeShardMessage(bytesOf(refused.hex))).toThrow(refused.problem);
  });

  it("shares the rows of a message between frames that mean the same", () => {
    const message = bytesOf(find("dispatch_same_rows").hex);
    const [first, second] = decodeShardMessage(message).frames;
    expect(first!.rows.buffer).toBe(message.buffer);
    expect(second!.rows).toBe(first!.rows);
  });

  it("makes a tab's own frames", () => {
    const heartbeat = {
      waiting: 3,
      computeUs: 1250,
      heldBytes: 6 * 2 ** 30,
      maxMessageBytes: 64 * 2 ** 20,
    };
    expect(heartbeatFrame(heartbeat).body).toEqual(
      bytesOf(find("heartbeat").frames[0]!.body),
    );
    const [rows, failed] = find("results").frames.map(described) as [ExpertFrame, ExpertFrame];
    const dispatch = { ...rows, type: ExpertFrameType.dispatch };
    expect(resultFrame(dispatch, rows.rows)).toEqual(rows);
    const sentence = Buffer.from(failed.body).toString();
    expect(failedResult({ ...dispatch, expert: 6 }, sentence)).toEqual(failed);
    expect(failedResult(dispatch, "x".repeat(2000)).body.length).toBe(1024);
  });

  it("makes a hub's own frames, and reads the server's answer", () => {
    const [rows] = find("rows_with_routes").frames.map(described) as [ExpertFrame];
    const { sequence, layer, expert: slots, tokens, hidden } = rows;
    const own = { sequence, layer, slots, tokens, hidden, rows: floatRowsOf(rows) };
    expect(rowsFrame(own)).toEqual(rows);
    expect(own.rows.length).toBe(tokens * (hidden + 2 * slots));
    const cancels = find("cancels").frames.map(described);
    for (const cancel of cancels) {
      expect(cancelFrame(cancel.sequence, cancel.layer, cancel.expert)).toEqual(cancel);
    }
    const message = encodeShardMessage(0, [cancelFrame(sequence, layer, kAnyExpert)]);
    expect(shardPeerOf(message)).toBe(0);
    expect(shardPeerOf(message.subarray(0, 4))).toBe(null);
    const given = decodeShardMessage(bytesOf(find("given").hex));
    expect(given).toMatchObject({ peer: 0, frames: [{ sequence, layer, expert: slots }] });
    expect(floatRowsOf(given.frames[0]!).length).toBe(tokens * hidden);
    const [givenUp] = decodeShardMessage(bytesOf(find("given_up").hex)).frames;
    expect(givenUp).toMatchObject({ failed: true, tokens: 0, hidden: 0 });
    expect(givenUp!.body.length).toBeGreaterThan(0);
  });
});
