// Experts in a tab, which installs them set by set on an engine that may lose its device. The rules
// that workers share are cases of tests/conformance/membership (rulebook.test.ts). Frames are made
// by hand here; those of the golden file go through the whole host in stage/expertHost.test.ts.
import { describe, it } from "vitest";

import { ExpertFrameType, RowType, encodeShardMessage } from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";
import type { ServerKind } from "@weft/wire/test/orchestrator.ts";

import { done, expectTable, fault, joined, kFetched, received, tell }
  from "../test/membershipTable.ts";
import type { Told } from "../test/membershipTable.ts";
import type { Membership } from "./membership.ts";

const kTakes = { takesExperts: true };

type Sets = readonly (readonly [layer: number, ...experts: number[]])[];

function hold(binding: number, sets: Sets): ServerKind {
  const value = {
    binding,
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
    body: new Uint8Array(0), maySum: false, best: false,
    takesSteps: false, added: [], rowType: RowType.f32,
  };
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
      [installed(), "send expertsHeld binding 3"],
      [
        shards(9, dispatch(1, 1, 0), dispatch(1, 1, 2), dispatch(1, 1, 1)),
        "shards to 9 failed 1:1", "experts for 9: 1:0 1:2",
      ],
      [rows(dispatch(1, 1, 0), dispatch(1, 1, 2)), "shards to 9 1:0 1:2"],
    ]);
  });

  it("drop the rest of an older statement's installing", () => {
    expectTable(joined(kTakes), [
      [hold(3, [[1, 0], [2, 0]]), "fetch 1:0,2:0"],
      [kFetched, "install experts of 3"],
      [hold(4, [[1, 0]]), "fetch 1:0"],
      [installed(1)],
      [kFetched, "install experts of 4"],
      [installed(), "send expertsHeld binding 4"],
    ]);
  });
});

describe("dispatches", () => {
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
