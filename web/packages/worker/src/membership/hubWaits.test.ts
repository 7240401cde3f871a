// A tab as a hub that leaves to the server whom to ask: what it sends for a step's rows, and what
// becomes of the step. Native hubs ask holders by themselves (src/worker/membership_hub_test.cc).
import { describe, expect, it } from "vitest";

import { ExpertFrameType, RowType, encodeShardMessage } from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";
import type { ServerKind } from "@weft/wire/test/orchestrator.ts";

import {
  computed, done, expectTable, failed, fault, generate, installed, joined, kDone, kFetched, kInit,
  kPing, made, prepare, prepareHub, received, retire, step, tell,
} from "../test/membershipTable.ts";
import type { Row, Told } from "../test/membershipTable.ts";
import type { Event } from "./events.ts";
import type { Membership, MembershipOptions } from "./membership.ts";

const kCanBeHub = { takesExperts: true, rowsToServer: true };
const kAgain: Event = { kind: "connectedAgain", now: 0 };
const kLost: Event = { kind: "connectionLost", now: 0 };
const kInvalidate: ServerKind = { case: "invalidateSessions", value: { sessions: [9] } };

// One row of two columns and its route of two slots.
function waits(layer: number, slots = 2): Told {
  const rows = Float32Array.from({ length: 2 + 2 * slots }, (_, i) => i);
  return { kind: "rowsWait", layer, slots, tokens: 1, hidden: 2, rows };
}

function answer(sequence: number, layer: number, change: Partial<ExpertFrame> = {}): Told {
  const rows = new Uint8Array(Float32Array.of(7, 8).buffer);
  const frame: ExpertFrame = {
    type: ExpertFrameType.given, sequence, layer, expert: 2, tokens: 1, hidden: 2, rows,
    sameRows: false, failed: false, maySum: false, best: false, takesSteps: false, added: [],
    rowType: RowType.f32, body: new Uint8Array(0), ...change,
  };
  return received(encodeShardMessage(0, [frame]));
}

function noAnswer(sequence: number, layer: number, change: Partial<ExpertFrame> = {}): Told {
  const body = new TextEncoder().encode("Nobody holds expert 3.");
  return answer(sequence, layer, { failed: true, tokens: 0, hidden: 0, body, ...change });
}

// A hub of layers 0 to 2 under binding 1.
function hub(change: Partial<MembershipOptions> = {}): Membership {
  const membership = joined({ ...kCanBeHub, ...change });
  for (const told of [prepareHub(1, 0, 2), kFetched, installed, installed]) tell(membership, told);
  return membership;
}

const kRows = "shards to 0 1 rows of 1 in 2 slots";
const kStepWaits: Row[] = [
  [step(1, 1), "hub step 1 over 0-2"],
  [waits(1), kRows],
];

describe("a hub that leaves to the server whom to ask", () => {
  it("fetches and installs its layers without their experts", () => {
    expectTable(joined(kCanBeHub), [
      [prepareHub(1, 0, 2), "fetch hub 0-2"],
      [kFetched, "install hub 0-1 of 1"],
      [installed, "install hub 1-2 of 1"],
      [installed, "send prepared binding 1"],
      [prepare(2, 1, 3), "fetch 1-3"], // whole, beside it
      [kFetched, "install 1-2 of 2"],
      [failed(fault("out_of_memory")), "send failed binding 2 out_of_memory", "keep , hubs 0-2"],
      [kDone],
      [retire([1], 0, 2), "keep 0-2, hubs 0-2"],
    ]);
  });

  it.each<[string, Partial<MembershipOptions>, ServerKind]>([
    ["without having said so", { takesExperts: true }, prepareHub(1, 0, 2)],
    ["that is told its holders", kCanBeHub, { case: "expertHolders", value: {} }],
  ])("is refused %s", (_, change, told) => {
    expectTable(joined(change), [[told, "finish retry"]]);
  });

  it("sends rows for every layer and goes on with what comes for them", () => {
    expectTable(hub(), [
      ...kStepWaits,
      [answer(1, 1), "giveRows 7,8"],
      [waits(1, 0), "shards to 0 1 rows of 1 in 0 slots"],
      [answer(1, 1)], // of before
      [answer(2, 1, { expert: 0 }), "giveRows 7,8"],
      [answer(2, 1, { expert: 0 })], // once more
      [computed, "send result"],
      [answer(3, 1)],
    ]);
  });

  it("fails a step whose rows nobody computes, and its engine works all the same", () => {
    const each = (sequence: number): Row[] => [
      [step(sequence, 1), `hub step ${sequence} over 0-2`],
      [waits(1), kRows],
      [noAnswer(sequence, 1), "refuseRows"],
      [failed(fault("unavailable")), `send stepFailed sequence ${sequence} binding 1 unavailable`],
    ];
    expectTable(hub(), [1, 2, 3, 4].flatMap(each));
    expectTable(hub(), [1, 2, 3].flatMap((sequence): Row[] => [
      [step(sequence, 1), `hub step ${sequence} over 0-2`],
      [failed(fault("unavailable")), `send stepFailed sequence ${sequence} binding 1 unavailable`,
        ...(sequence === 3 ? ["finish engineStopped"] : [])],
    ]));
  });

  it.each<[string, Told]>([
    ["of other rows", answer(1, 1, { tokens: 2, rows: new Uint8Array(16) })],
    ["of other columns", answer(1, 1, { hidden: 1, rows: new Uint8Array(4) })],
    ["of other slots", answer(1, 1, { expert: 3 })],
    ["of another layer", answer(1, 2)],
    ["of another layer that failed", noAnswer(1, 2)],
    ["that cannot be read", received(Uint8Array.of(2, 0, 0, 0, 0, 77))],
  ])("fails the step at an answer %s", (_, told) => {
    expectTable(hub(), [
      ...kStepWaits,
      [told, "refuseRows"],
      [failed(fault("unavailable")), "send stepFailed sequence 1 binding 1 unavailable"],
      [step(2, 1), "hub step 2 over 0-2"],
    ]);
  });

  it("waits for nothing behind its connection", () => {
    expectTable(hub(), [
      ...kStepWaits,
      [kLost, "refuseRows", "keepFor 60000"],
      [failed(fault("unavailable"))],
      [kAgain],
      [kInit, "limitSilence 3000", "takeStock of 1, sessions 1"],
    ]);
    const membership = hub();
    expectTable(membership, [
      [step(1, 1), "hub step 1 over 0-2"],
      [kLost, "keepFor 60000"],
      [waits(1), "refuseRows"],
      [kAgain],
      [waits(1), "refuseRows"], // the step is nobody's any more
    ]);
  });

  it("tells the server once for each wait that other work waits behind it", () => {
    expectTable(hub(), [
      [step(1, 1), "hub step 1 over 0-2"],
      [step(2, 1, [2])],
      [waits(0), "shards to 0 1 rows of 0 in 2 slots"],
      [step(3, 9)], // is refused in its turn
      [kPing, "send pong"],
      [kInvalidate, "shards to 0 cancel 0:65535"],
      [retire([1], 0, 2)],
      [answer(1, 0), "giveRows 7,8"], // somebody held them
      [waits(1), kRows, "shards to 0 cancel 1:65535"],
      [noAnswer(2, 1), "refuseRows"],
      [failed(fault("unavailable")), "send stepFailed sequence 1 binding 1 unavailable",
        "hub step 2 over 0-2"],
    ]);
  });

  it("runs one step of hubs at a time", () => {
    const membership = hub({ stepsInFlight: 2, stepsFollow: true });
    for (const told of [prepare(2, 2, 4), kFetched, installed, installed]) tell(membership, told);
    expectTable(membership, [
      [step(1, 1, [1]), "hub step 1 over 0-2"],
      [step(2, 1, [2])],
      [waits(1), kRows],
      [answer(1, 1), "giveRows 7,8"],
      [computed, "send result", "hub step 2 over 0-2"],
      [step(3, 2, [1]), "step 3 over 2-4"], // another engine's
    ]);
  });

  it("makes no tokens", () => {
    const membership = joined(kCanBeHub);
    for (const told of [prepareHub(1, 0, 6), kFetched]) tell(membership, told);
    for (let layer = 0; layer < 6; ++layer) tell(membership, installed);
    expectTable(membership, [
      [generate(5, 1), "send stepFailed sequence 5 binding 1 invalid_argument"],
    ]);
  });

  it("lets dispatches wait until its step has ended", () => {
    const membership = joined(kCanBeHub);
    const experts = Uint8Array.of(1);
    const value = { binding: 1, sets: [{ layer: 4, experts }] };
    for (const told of [{ case: "holdExperts", value } as const, kFetched,
      done({ kind: "expertsInstalled", rest: 0, usedBytes: 5 }),
      prepareHub(2, 0, 2), kFetched, installed, installed]) tell(membership, told);
    const dispatch = (hubPeer: number): Told => {
      const frame = { type: ExpertFrameType.dispatch, layer: 4, expert: 0 };
      const rest = { sequence: 1, tokens: 1, hidden: 2, rows: new Uint8Array(8) };
      const flags = { sameRows: false, failed: false, maySum: false, best: false };
      const none = { takesSteps: false, added: [], body: new Uint8Array(0), rowType: RowType.f32 };
      return received(encodeShardMessage(hubPeer, [{ ...frame, ...rest, ...flags, ...none }]));
    };
    expectTable(membership, [
      [step(1, 2), "hub step 1 over 0-2"],
      [waits(1), kRows],
      [dispatch(9)],
      [dispatch(0)], // the server may ask as itself
      [answer(1, 1), "giveRows 7,8"],
      [computed, "send result", "experts for 9: 4:0"],
    ]);
  });
});

it("a message of the server is for nobody where no hub can be", () => {
  const membership = made({ takesExperts: true });
  expect(tell(membership, answer(1, 1))).not.toEqual([]); // before Init: a violation
  expectTable(joined({ takesExperts: true }), [[answer(1, 1)]]);
});
