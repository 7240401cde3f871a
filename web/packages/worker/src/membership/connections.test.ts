// What becomes of a worker's bindings and sessions when its connection breaks, when it comes back,
// and when it goes. The same cases as src/worker/membership_connections_test.cc.
import { describe, expect, it } from "vitest";

import { encodeServerMessage } from "@weft/wire/test/orchestrator.ts";
import type { ServerKind } from "@weft/wire/test/orchestrator.ts";

import {
  computed, done, download, expectTable, fault, generate, init, installed, interrupted, joined,
  kDone, kFetched, kInit, kJoined, kPaused, kPing, made, prepare, there, received, retire, serving,
  step, tell, told,
} from "../test/membershipTable.ts";
import type { Row } from "../test/membershipTable.ts";
import type { Event } from "./events.ts";

const kAgain: Event = { kind: "connectedAgain", now: 0 };
const lost = (now = 0): Event => ({ kind: "connectionLost", now });
const over = (now: number): Event => ({ kind: "keptLongEnough", now });
const leaveAsked = (isDraining: boolean): Event =>
  ({ kind: "leaveAsked", reason: "stopped", isDraining });
const initAt = (now: number): Event => received(encodeServerMessage(kInit), now);
// What the engine holds of session 1 in each of the bindings.
const stock = (...bindings: [epoch: number, positions: number][]): Event => done({
  kind: "stock",
  bindings: bindings.map(([epoch, positions]) => ({
    epoch,
    stage: 0,
    layers: { first: 0, end: 2 },
    sessions: positions > 0 ? [1] : [],
    positions: positions > 0 ? [positions] : [],
  })),
});
const kSampling: ServerKind = { case: "sampling", value: { session: 1, generation: 1 } };
const invalidate = (...sessions: number[]): ServerKind =>
  ({ case: "invalidateSessions", value: { sessions } });
const kLost: Row = [lost(), "keepFor 60000"];

describe("coming back", () => {
  it("says what it holds and goes on, without joining again", () => {
    expectTable(serving(0, 2), [
      [prepare(4, 2, 3), "fetch 2-3"],
      [kFetched, "install 2-3 of 4"],
      [installed, "send prepared epoch 4"],
      [step(1, 1), "step 1 over 0-2"],
      [computed, "send result"],
      kLost,
      [kAgain],
      [kInit, "limitSilence 3000", "takeStock of 1,4, sessions 1"],
      [stock([1, 7], [4, 0]), "send connect 1: s1 at 7, 4:"],
      [step(1, 1), "step 1 over 0-2"],
      [computed, "send result"],
      [prepare(4, 0, 1), "finish retry"], // epochs rise, over connections too
    ]);
  });

  it("tells of the layers that came meanwhile", () => {
    const membership = serving(0, 2);
    for (const layer of [5, 3, 5]) {
      tell(membership, { kind: "layerFetched", layer, byteCount: 1, elapsedUs: 1 });
    }
    for (const told of [lost(), kAgain, kInit]) tell(membership, told);
    const connect = tell(membership, stock([1, 0])).find(({ kind }) => kind === "sendControl");
    expect(connect).toMatchObject({ message: { value: { cachedLayers: [3, 5] } } });
  });

  it("the step under way is finished and not answered, the others are dropped", () => {
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [step(2, 1)],
      [step(3, 9)],
      [kSampling],
      kLost,
      [kAgain],
      [kInit, "limitSilence 3000"], // the engine computes
      [kPing, "send pong"],
      [computed, "takeStock of 1, sessions 1"],
      [stock([1, 1]), "send connect 1: s1 at 1"],
    ]);
  });

  it("a generation ends, and is not told", () => {
    expectTable(serving(0, 6), [
      [generate(1, 1), "make tokens 1"],
      [lost(), "pauseTokens", "keepFor 60000"],
      [told(1, [4, 5])],
      [kAgain],
      [told(1, [6])],
      [kInit, "limitSilence 3000"],
      [kPaused, "takeStock of 1, sessions 1"],
      [stock([1, 4]), "send connect 1: s1 at 4"],
    ]);
  });

  it("nothing is said where nobody listens", () => {
    expectTable(serving(0, 2), [
      [prepare(2, 2, 4), "fetch 2-4"],
      [lost(), "keepFor 60000", "interruptFetch", "keep 0-2"],
      [{ kind: "fetchProgressed", doneBytes: 1, totalBytes: 2 }],
      [{ kind: "layerFetched", layer: 2, byteCount: 1, elapsedUs: 1 }],
      [{ kind: "wholeWished", isWanted: true, apiKey: "" }],
      [kPing], // what was on its way
      [received(new Uint8Array(0))],
    ]);
  });

  it.each<[string, Row[]]>([
    ["fetched", [
      [prepare(2, 3, 5), "fetch 3-5"],
      [download(5)],
      [lost(), "keepFor 60000", "interruptFetch", "keep 0-2"],
      [interrupted],
      [kDone],
    ]],
    ["installed, and the layer that was goes again", [
      [prepare(2, 3, 5), "fetch 3-5"],
      [kFetched, "install 3-4 of 2"],
      [step(1, 1)],
      [installed, "step 1 over 0-2"],
      [lost(), "keepFor 60000"],
      [computed, "keep 0-2"],
      [kDone],
    ]],
    ["measured", [
      [{ case: "measureSpeed", value: { ranges: [{ first: 3, end: 5 }], runs: 3 } }, "fetch 3-5"],
      [kFetched, "measure 3-5"],
      [lost(), "keepFor 60000"],
      [done({ kind: "measured", timings: [], answers: [] }), "keep 0-2"],
      [kDone],
    ]],
  ])("what is still being %s is not held", (_, rows) => {
    const membership = serving(0, 2);
    expectTable(membership, [...rows, [kAgain]]);
    tell(membership, kInit);
    expectTable(membership, [
      [stock([1, 1]), "send connect 1: s1 at 1"],
      [prepare(3, 3, 5), "fetch 3-5"], // and the next one is loaded as ever
      [kFetched, "install 3-4 of 3"],
      [installed, "install 4-5 of 3"],
      [installed, "send prepared epoch 3"],
    ]);
  });

  it("what forgets and unloads is still done", () => {
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [invalidate(1)],
      [retire([1], 0, 2)],
      kLost,
      [computed, "release 1"],
      [kDone, "keep 0-2"],
      [kDone, "keep 0-2"],
      [kDone],
      [kAgain],
      [kInit, "limitSilence 3000", "takeStock of 1, sessions "],
    ]);
  });

  it("sessions that are not held are over", () => {
    expectTable(serving(0, 2), [
      [step(1, 1, [7]), "step 1 over 0-2"],
      [computed, "send result"],
      [step(2, 1, [1]), "step 2 over 0-2"],
      [computed, "send result"],
      kLost,
      [kAgain],
      [kInit, "limitSilence 3000", "takeStock of 1, sessions 7,1"],
      [stock([1, 4]), "send connect 1: s1 at 4", "release 7"],
      [kDone],
      [step(3, 1, [8]), "step 3 over 0-2"], // the second of two
    ]);
  });

  it("a second break on the way changes nothing", () => {
    expectTable(serving(0, 2), [
      kLost,
      [kAgain],
      [kInit, "limitSilence 3000", "takeStock of 1, sessions "],
      [lost(10_000), "keepFor 60000"],
      [kAgain],
      [stock()], // for a connection that is gone
      [kInit, "limitSilence 3000", "takeStock of 1, sessions "],
      [stock([1, 2]), "send connect 1: s1 at 2"],
    ]);
  });
});

describe("what is kept", () => {
  it("goes when its time is over, which is counted from the first break", () => {
    expectTable(serving(0, 2), [
      [lost(0), "keepFor 60000"],
      [over(59_999), "keepFor 1"], // of an early clock
      [kAgain],
      [lost(40_000), "keepFor 20000"],
      [over(60_000), "releaseAll"],
      [kAgain],
      [kInit, "limitSilence 3000"],
      [kDone, "join"], // as a worker that was never here
      [kJoined, "send connect"],
      [prepare(1, 0, 2), "fetch 0-2"],
    ]);
  });

  it("is not spoken of when nobody was awake to say that it is over", () => {
    expectTable(serving(0, 2), [
      kLost,
      [kAgain],
      [initAt(60_000), "limitSilence 3000", "releaseAll"],
      [kDone, "join"],
    ]);
  });

  it("and used again is not forgotten by an old clock", () => {
    expectTable(serving(0, 2), [
      kLost,
      [kAgain],
      [kInit, "limitSilence 3000", "takeStock of 1, sessions "],
      [stock([1, 0]), "send connect 1:"],
      [over(90_000)],
      [step(1, 1), "step 1 over 0-2"],
    ]);
  });

  it.each<[string, ServerKind]>([
    ["another swarm", init({ swarmId: new Uint8Array([2]) })],
    ["a server that names none", init({ swarmId: new Uint8Array(0) })],
    ["another package", init({ packageDigest: new Uint8Array(32).fill(1) })],
  ])("means nothing to %s", (_, other) => {
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      kLost,
      [kAgain],
      [other, "limitSilence 3000"],
      [computed, "releaseAll"],
      [kDone, "join"],
      [kJoined, "send connect"],
      [step(1, 1), "send stepFailed sequence 1 epoch 1 invalid_argument"],
      [prepare(1, 0, 2), "fetch 0-2"], // its own numbers
    ]);
  });

  it("makes way for another package when nothing is under way", () => {
    expectTable(joined(), [
      [prepare(1, 0, 2), "fetch 0-2"],
      [there(0), "send layerDownloaded layer 0", "install 0-1 of 1"],
      [download(4)],
      [lost(), "keepFor 60000", "interruptFetch"],
      [kAgain],
      [init({ swarmId: new Uint8Array([2]) }), "limitSilence 3000"],
      [installed, "keep "],
      [kDone, "releaseAll"],
      [kDone],
      [interrupted, "join"],
    ]);
  });

  it.each([{ resumeMs: 0 }, { swarmId: new Uint8Array(0) }])(
    "is nothing where the server says %o", (change) => {
      expectTable(made(), [
        [init(change), "limitSilence 3000", "join"],
        [kJoined, "send connect"],
        [lost(), "releaseAll"],
      ]);
    });
});

it("what joins for a connection that is gone joins again", () => {
  expectTable(made(), [
    [kInit, "limitSilence 3000", "join"],
    [lost()],
    [kAgain],
    [kInit, "limitSilence 3000"], // one at a time
    [{ kind: "joined", as: { kind: "retry", message: "Broken." } }, "join"],
    [kJoined, "send connect"],
  ]);
});

describe("leaving", () => {
  it("without draining says so and nothing more", () => {
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [leaveAsked(false), "send leaving"],
      [computed],
      [kPing],
    ]);
  });

  it("answers steps until the connection ends, and begins nothing new", () => {
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [prepare(2, 2, 4), "fetch 2-4"],
      [leaveAsked(true), "send leaving", "interruptFetch"],
      [{ kind: "fetchEnded", fault: fault("cancelled") }],
      [step(2, 1)],
      [computed, "send result", "keep 0-2"],
      [kDone, "step 2 over 0-2"],
      [prepare(3, 2, 4)],
      [{ case: "measureSpeed", value: { ranges: [{ first: 3, end: 5 }], runs: 3 } }],
      [download(4)],
      [computed, "send result"],
      [kPing, "send pong"],
      [lost()],
      [kAgain],
      [kPing],
    ]);
  });

  it("between connections is just going", () => {
    expectTable(serving(0, 2), [kLost, [leaveAsked(true)], [kAgain], [kInit]]);
  });
});
