// Membership of a tab that holds experts for hubs: what it loads, computes, refuses and answers.
// The same rules as src/worker/membership_shards_test.cc. Frames are made by hand here; those of
// the golden file go through the whole host in stage/expertHost.test.ts.
import { describe, expect, it } from "vitest";

import { ExpertFrameType, decodeShardMessage, encodeShardMessage, kAnyExpert, kBatchBit }
  from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";
import type { ServerKind } from "@weft/wire/test/orchestrator.ts";

import {
  done, expectTable, failed, fault, interrupted, joined, kFetched, kInit, kJoined, kPing, made,
  received, serving, step, computed, tell,
} from "../test/membershipTable.ts";
import type { Told } from "../test/membershipTable.ts";
import type { Membership } from "./membership.ts";

const kTakes = { takesExperts: true };

type Sets = readonly (readonly [layer: number, ...experts: number[]])[];

function hold(epoch: number, sets: Sets): ServerKind {
  const value = {
    epoch,
    sets: sets.map(([layer, ...experts]) => {
      const bits = new Uint8Array((experts.at(-1)! >> 3) + 1);
      for (const expert of experts) bits[expert >> 3]! |= 1 << (expert & 7);
      return { layer, experts: bits };
    }),
  };
  return { case: "holdExperts", value };
}

function dispatch(sequence: number, layer: number, expert: number): ExpertFrame {
  return {
    type: ExpertFrameType.dispatch, sequence, layer, expert, tokens: 1, hidden: 2,
    sameRows: false, failed: false, rows: new Uint8Array(8),
    body: new Uint8Array(0), maySum: false, added: [],
  };
}

function cancel(sequence: number, layer: number, expert: number): ExpertFrame {
  const bare = { tokens: 0, hidden: 0, rows: new Uint8Array(0) };
  return { ...dispatch(sequence, layer, expert), ...bare, type: ExpertFrameType.cancel };
}

const shards = (hub: number, ...frames: ExpertFrame[]): Told =>
  received(encodeShardMessage(hub, frames));

const installed = (rest = 0): Told => done({ kind: "expertsInstalled", rest, usedBytes: 50 });
const rows = (...dispatches: ExpertFrame[]): Told => {
  const type = ExpertFrameType.result;
  const results = dispatches.map((each) => ({ ...each, type }));
  return done({ kind: "expertRows", results, computeMs: 1, fault: null });
};

function holding(sets: Sets, membership: Membership = joined(kTakes)): Membership {
  for (const told of [hold(2, sets), kFetched, installed()]) tell(membership, told);
  return membership;
}

describe("experts that are held for hubs", () => {
  it("are fetched and installed set by set, and then they are held", () => {
    expectTable(joined(kTakes), [
      [hold(3, [[1, 0, 2], [2, 9]]), "fetch 1:0+2,2:9"],
      [shards(9, dispatch(1, 1, 0)), "shards to 9 failed 1:0"],
      [kFetched, "install experts of 3"],
      [installed(1), "install experts of 3"],
      [installed(), "send expertsHeld epoch 3"],
      [
        shards(9, dispatch(1, 1, 0), dispatch(1, 1, 2), dispatch(1, 1, 1)),
        "shards to 9 failed 1:1", "experts for 9: 1:0 1:2",
      ],
      [rows(dispatch(1, 1, 0), dispatch(1, 1, 2)), "shards to 9 1:0 1:2"],
    ]);
  });

  it("are said to have failed under their epoch", () => {
    expectTable(joined(kTakes), [
      [hold(3, [[1, 0]]), "fetch 1:0"],
      [{ kind: "fetchEnded", fault: fault("io") }, "send failed epoch 3 io"],
      [hold(4, [[1, 0]]), "fetch 1:0"],
      [kFetched, "install experts of 4"],
      [failed(fault("out_of_memory")), "send failed epoch 4 out_of_memory"],
    ]);
  });

  it("are those of the newest statement", () => {
    const membership = holding([[1, 0, 2]]);
    expectTable(membership, [
      [hold(3, [[1, 0, 4]]), "fetch 1:0+4"],
      // Not named any more, held already, not loaded yet.
      [
        shards(9, dispatch(1, 1, 2), dispatch(1, 1, 0), dispatch(1, 1, 4)),
        "shards to 9 failed 1:2 failed 1:4", "experts for 9: 1:0",
      ],
      [hold(4, []), "interruptFetch"],
      [interrupted, "fetch "],
      [rows(dispatch(1, 1, 0)), "shards to 9 1:0"],
      [kFetched, "install experts of 4"],
      [installed(), "send expertsHeld epoch 4"],
      [shards(9, dispatch(2, 1, 0)), "shards to 9 failed 1:0"],
    ]);
  });

  it("drop the rest of an older statement's installing", () => {
    expectTable(joined(kTakes), [
      [hold(3, [[1, 0], [2, 0]]), "fetch 1:0,2:0"],
      [kFetched, "install experts of 3"],
      [hold(4, [[1, 0]]), "fetch 1:0"],
      [installed(1)],
      [kFetched, "install experts of 4"],
      [installed(), "send expertsHeld epoch 4"],
    ]);
  });
});

describe("dispatches", () => {
  it("and steps take turns", () => {
    expectTable(holding([[1, 0]], serving(0, 3, kTakes)), [
      [step(1, 1), "step 1 over 0-3"],
      [step(2, 1, [1], 1)],
      [shards(9, dispatch(1, 1, 0))],
      [shards(8, dispatch(1, 1, 0))],
      [computed, "send result", "experts for 9: 1:0"],
      [rows(dispatch(1, 1, 0)), "shards to 9 1:0", "step 2 over 0-3"],
      [computed, "send result", "experts for 8: 1:0"],
      [rows(dispatch(1, 1, 0)), "shards to 8 1:0"],
    ]);
  });

  it("take the place of older ones of the same hub's same batch", () => {
    const other = (5 | kBatchBit) >>> 0;
    expectTable(holding([[1, 0, 1]]), [
      [shards(9, dispatch(1, 1, 0)), "experts for 9: 1:0"],
      [shards(9, dispatch(2, 1, 0), dispatch(2, 1, 1))],
      [shards(9, dispatch(other, 1, 1))],
      [shards(8, dispatch(1, 1, 0))],
      [shards(9, dispatch(3, 1, 0))],
      [rows(dispatch(1, 1, 0)), "shards to 9 1:0", "experts for 9: 1:1"],
      [rows(dispatch(other, 1, 1)), "shards to 9 1:1", "experts for 8: 1:0"],
      [rows(dispatch(1, 1, 0)), "shards to 8 1:0", "experts for 9: 1:0"],
      [rows(dispatch(3, 1, 0)), "shards to 9 1:0"],
    ]);
  });

  it("that wait are cancelled, one or all of a layer", () => {
    expectTable(holding([[1, 0, 1, 2]]), [
      [shards(9, dispatch(1, 1, 0)), "experts for 9: 1:0"],
      [shards(8, dispatch(7, 1, 0), dispatch(7, 1, 1), dispatch(7, 1, 2))],
      [shards(8, cancel(7, 1, 1), cancel(6, 1, 0))],
      [shards(7, dispatch(7, 1, 0), dispatch(7, 1, 1))],
      [shards(7, cancel(7, 1, kAnyExpert))],
      [rows(dispatch(1, 1, 0)), "shards to 9 1:0", "experts for 8: 1:0 1:2"],
    ]);
  });

  it("are followed by a heartbeat to their hubs at every ping", () => {
    const membership = holding([[1, 0]]);
    const other = (1 | kBatchBit) >>> 0;
    expectTable(membership, [
      [kPing, "send pong"],
      [shards(9, dispatch(1, 1, 0)), "experts for 9: 1:0"],
      [shards(9, dispatch(other, 1, 0))],
    ]);
    const frame = tell(membership, kPing).find((action) => action.kind === "sendFrame")!;
    const { body } = decodeShardMessage(frame.message).frames[0]!;
    const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
    expect(view.getUint32(0, true)).toBe(2); // waiting
    expect(view.getBigUint64(8, true)).toBe(50n); // held bytes
  });

  it("are not answered over a connection that is gone", () => {
    expectTable(holding([[1, 0]]), [
      [shards(9, dispatch(1, 1, 0)), "experts for 9: 1:0"],
      [shards(9, dispatch(1, 1, 0))],
      [{ kind: "connectionLost", now: 0 }, "keepFor 60000"],
      [rows(dispatch(1, 1, 0))],
      [{ kind: "connectedAgain", now: 1 }],
      [kInit, "limitSilence 3000", "takeStock of , sessions "],
      [done({ kind: "stock", bindings: [] }), "send connect"],
      // What it holds has to be said again, under any epoch.
      [shards(9, dispatch(1, 1, 0)), "shards to 9 failed 1:0"],
      [hold(1, [[1, 0]]), "fetch 1:0"],
    ]);
  });

  it("that a hub garbled are passed over", () => {
    expectTable(joined(kTakes), [
      [received(new Uint8Array([2, 1, 0, 0, 0, 0x4d, 0x6f]))],
      [hold(3, [[1, 0]]), "fetch 1:0"],
    ]);
  });

  it("that fail with their engine again and again end the connection", () => {
    const results = [{ ...dispatch(1, 1, 0), type: ExpertFrameType.result }];
    const broken = done({
      kind: "expertRows", results, computeMs: 1, fault: fault("unavailable"),
    });
    expectTable(holding([[1, 0]]), [
      [shards(9, dispatch(1, 1, 0)), "experts for 9: 1:0"],
      [broken, "shards to 9 1:0"],
      [shards(9, dispatch(1, 1, 0)), "experts for 9: 1:0"],
      [broken, "shards to 9 1:0"],
      [shards(9, dispatch(1, 1, 0)), "experts for 9: 1:0"],
      [broken, "shards to 9 1:0", "finish engineStopped"],
    ]);
  });
});

describe("a server that must not", () => {
  it.each<[string, Told]>([
    ["repeats an epoch", hold(3, [])],
    ["names a layer that the model does not have", hold(4, [[6, 0]])],
    ["names layers out of their order", hold(4, [[2, 0], [1, 0]])],
  ])("%s: the connection ends", (_, told) => {
    const membership = joined(kTakes);
    tell(membership, hold(3, []));
    expectTable(membership, [[told, "finish retry"]]);
  });

  it.each<[string, Told]>([
    ["HoldExperts", hold(3, [])],
    ["a shard message", shards(9, dispatch(1, 1, 0))],
  ])("sends %s to a tab without experts: the connection ends", (_, told) => {
    expectTable(joined(), [[told, "finish retry"]]);
  });

  it("sends a shard message before Init was answered: the connection ends", () => {
    const membership = made(kTakes);
    tell(membership, kInit);
    expectTable(membership, [[shards(9, dispatch(1, 1, 0)), "finish retry"], [kJoined]]);
  });
});
