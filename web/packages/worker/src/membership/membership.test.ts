// The rules of docs/protocol.md as tables: what comes in, and what is asked for in answer. The same
// cases as src/worker/membership_test.cc, where both sides have them.
import { describe, expect, it } from "vitest";

import { WholeModel, encodeFork, encodeGeneration } from "@weft/wire";
import type { ServerKind } from "@weft/wire/test/orchestrator.ts";

import {
  computed, done, download, expectTable, failed, fault, generate, init, installed, interrupted,
  joined, kDone, kFetched, kInit, kJoined, kPaused, kPing, made, prepare, there, received, retire,
  serving, step, stop, tell, told, wholeModel,
} from "../test/membershipTable.ts";
import type { Row, Told } from "../test/membershipTable.ts";
import { kMeasureSession } from "./events.ts";
import type { Shown } from "./events.ts";
import type { Membership } from "./membership.ts";
import { kMaxBindings } from "./stageTable.ts";

describe("joining", () => {
  it.each<[string, Row[]]>([
    ["Init asks to join, what comes of it is Connect", [
      [kInit, "limitSilence 3000", "join"],
      [kJoined, "send connect"],
    ]],
    ["an ending instead of Connect", [
      [kInit, "limitSilence 3000", "join"],
      [{ kind: "joined", as: { kind: "notLowered", message: "No programs." } },
        "finish notLowered"],
      [kPing],
    ]],
    ["Init twice", [[kInit, "limitSilence 3000", "join"], [kInit, "finish retry"]]],
    ["a refusal", [
      [{ case: "refused", value: { code: "permission_denied", message: "No." } }, "finish refused"],
    ]],
    ["a refusal of a server that is busy", [
      [{ case: "refused", value: { code: "unavailable", message: "Full." } }, "finish retry"],
    ]],
    ["work before Connect", [
      [kInit, "limitSilence 3000", "join"],
      [prepare(1, 0, 2), "finish retry"],
    ]],
    ["a step before Connect", [
      [step(3, 1), "send stepFailed sequence 3 epoch 1 invalid_argument"],
    ]],
    ["a ping before Connect", [[kPing, "send pong"]]],
    ["bytes that are no message", [[received(new Uint8Array([1, 255])), "finish retry"]]],
    ["an empty message", [[received(new Uint8Array(0)), "finish retry"]]],
    ["leaving, at any time", [
      [{ kind: "leaveAsked", reason: "stopped", isDraining: false }, "send leaving"],
    ]],
  ])("%s", (_, rows) => expectTable(made(), rows));

  it.each([[0, 0], [1000, 1000], [2 ** 31, 32_768]])(
    "a pong has the bytes that the ping asks for up to a limit: %i, %i",
    (answerBytes, length) => {
      const actions = tell(made(), { case: "ping", value: { nonce: 4n, answerBytes } });
      const pong = actions.find(({ kind }) => kind === "sendControl");
      expect(pong).toMatchObject({ message: { value: { nonce: 4n, padding: { length } } } });
    });

  it("a control message of a newer server asks for a reload", () => {
    expectTable(joined(), [[received(new Uint8Array([1])), "finish refused"]]);
  });
});

describe("stages", () => {
  it.each<[string, Row[]]>([
    ["are fetched, installed layer by layer, run", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [{ kind: "layerFetched", layer: 0, byteCount: 10, elapsedUs: 5 },
        "send layerDownloaded layer 0", "install 0-1 of 1"],
      [{ kind: "fetchProgressed", doneBytes: 10, totalBytes: 30 }, "send downloadProgress"],
      [kFetched],
      [installed, "install 1-2 of 1"],
      [step(1, 1)],
      [installed, "send prepared epoch 1", "send stepFailed sequence 1 epoch 1 invalid_argument"],
      [step(2, 1), "step 2 over 0-2"],
      [computed, "send result"],
      [step(3, 2), "send stepFailed sequence 3 epoch 2 invalid_argument"],
    ]],
    ["a download that fails is said, and its stage forgotten", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [{ kind: "fetchEnded", fault: fault("not_found") }, "send failed epoch 1 not_found"],
      [step(1, 1), "send stepFailed sequence 1 epoch 1 invalid_argument"],
    ]],
    ["a layer that does not fit is said, and what was installed goes", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [kFetched, "install 0-1 of 1"],
      [installed, "install 1-2 of 1"],
      [failed(fault("out_of_memory")), "send failed epoch 1 out_of_memory", "keep "],
    ]],
    ["a kernel that the driver refuses asks for another engine", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [kFetched, "install 0-1 of 1"],
      [failed(fault("unsupported", "matvec", true)), "finish engineFailed"],
    ]],
    ["layers that the model does not have", [[prepare(1, 0, 7), "finish retry"]]],
    ["no layers at all", [[prepare(1, 2, 2), "finish retry"]]],
    ["Retire interrupts the fetch of one that it does not name", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [prepare(2, 3, 4)],
      [retire([2], 0, 6), "interruptFetch", "keep 0-6"],
      [interrupted, "fetch 3-4"],
    ]],
    ["a stage that was retired is not installed any further", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [kFetched, "install 0-1 of 1"],
      [prepare(2, 3, 4), "fetch 3-4"],
      [retire([2], 3, 4)],
      [installed, "keep 3-4"],
      [kDone],
      [step(1, 1), "send stepFailed sequence 1 epoch 1 invalid_argument"],
    ]],
    ["layers are installed as they come, one after the other", [
      [prepare(1, 0, 3), "fetch 0-3"],
      [there(0), "send layerDownloaded layer 0", "install 0-1 of 1"],
      [there(1), "send layerDownloaded layer 1"],
      [installed, "install 1-2 of 1"],
      [installed],
      [there(2), "send layerDownloaded layer 2", "install 2-3 of 1"],
      [kFetched],
      [installed, "send prepared epoch 1"],
    ]],
    ["what was installed goes where the rest of the fetch fails", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [there(0), "send layerDownloaded layer 0", "install 0-1 of 1"],
      [{ kind: "fetchEnded", fault: fault("io") }, "send failed epoch 1 io"],
      [installed, "keep "],
      [kDone],
      [prepare(2, 0, 2), "fetch 0-2"],
    ]],
    ["a standby's are installed behind a layer that came for whoever waits", [
      [prepare(1, 0, 2, true), "fetch 0-2"],
      [there(0), "send layerDownloaded layer 0", "install 0-1 of 1"],
      [prepare(2, 4, 6), "interruptFetch"],
      [interrupted, "fetch 4-6"],
      [there(4), "send layerDownloaded layer 4"],
      [installed, "install 4-5 of 2"],
      [kFetched, "fetch 0-2"],
      [there(0), "send layerDownloaded layer 0"],
      [there(1), "send layerDownloaded layer 1"],
      [installed, "install 5-6 of 2"],
      [installed, "send prepared epoch 2", "install 1-2 of 1"],
      [kFetched],
      [installed, "send prepared epoch 1"],
    ]],
    ["Release forgets them, and interrupts", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [{ case: "release", value: {} }, "interruptFetch", "releaseAll"],
      [interrupted],
      [kDone],
      [step(1, 1), "send stepFailed sequence 1 epoch 1 invalid_argument"],
    ]],
    ["a standby's are fetched and installed behind those that somebody waits for", [
      [prepare(1, 0, 2, true), "fetch 0-2"],
      [kFetched, "install 0-1 of 1"],
      [prepare(2, 4, 5, true), "fetch 4-5"],
      [prepare(3, 2, 4), "interruptFetch"],
      [interrupted, "fetch 2-4"],
      [kFetched, "fetch 4-5"],
      [installed, "install 2-3 of 3"],
      [installed, "install 3-4 of 3"],
      [installed, "send prepared epoch 3", "install 1-2 of 1"],
      [installed, "send prepared epoch 1"],
      [step(1, 1), "step 1 over 0-2"],
    ]],
  ])("%s", (_, rows) => expectTable(joined(), rows));

  it("steps come between the layers of another stage", () => {
    expectTable(serving(0, 2), [
      [prepare(2, 2, 4), "fetch 2-4"],
      [kFetched, "install 2-3 of 2"],
      [step(5, 1)],
      [installed, "step 5 over 0-2"],
      [computed, "send result", "install 3-4 of 2"],
      [step(6, 1)],
      [installed, "send prepared epoch 2", "step 6 over 0-2"],
    ]);
  });

  it("answers come in the order of the messages, only a ping does not wait", () => {
    expectTable(serving(0, 2), [
      [step(5, 1), "step 5 over 0-2"],
      [step(6, 9)],
      [retire([1], 2, 3)],
      [step(7, 1)],
      [kPing, "send pong"],
      [computed, "send result", "send stepFailed sequence 6 epoch 9 invalid_argument", "keep 2-3"],
      [kDone, "send stepFailed sequence 7 epoch 1 invalid_argument"],
    ]);
  });

  it("three failures of the engine in a row end the connection, others do not count", () => {
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [failed(fault("unavailable")), "send stepFailed sequence 1 epoch 1 unavailable"],
      [step(2, 1), "step 2 over 0-2"],
      [failed(fault("unavailable")), "send stepFailed sequence 2 epoch 1 unavailable"],
      [step(3, 1), "step 3 over 0-2"],
      [computed, "send result"],
      ...[4, 5, 6, 7].flatMap((sequence): Row[] => [
        [step(sequence, 1), `step ${sequence} over 0-2`],
        [failed(fault("invalid_data")),
          `send stepFailed sequence ${sequence} epoch 1 invalid_data`],
      ]),
      ...[8, 9].flatMap((sequence): Row[] => [
        [step(sequence, 1), `step ${sequence} over 0-2`],
        [failed(fault("unavailable")), `send stepFailed sequence ${sequence} epoch 1 unavailable`],
      ]),
      [step(10, 1), "step 10 over 0-2"],
      [failed(fault("unavailable")), "send stepFailed sequence 10 epoch 1 unavailable",
        "finish engineStopped"],
      [kPing],
    ]);
  });

  it("steps beyond the limits of Init and of the measured session are refused", () => {
    expectTable(serving(0, 2), [
      [step(9, 1, [kMeasureSession]), "send stepFailed sequence 9 epoch 1 invalid_argument"],
      [step(1, 1, [7], 63), "step 1 over 0-2"],
      [computed, "send result"],
      [step(2, 1, [7], 64), "send stepFailed sequence 2 epoch 1 invalid_argument"],
      [step(3, 1, [7, 8]), "step 3 over 0-2"],
      [computed, "send result"],
      [step(4, 1, [9]), "send stepFailed sequence 4 epoch 1 invalid_argument"],
      [{ case: "invalidateSessions", value: { sessions: [7] } }, "release 7"],
      [kDone],
      [step(5, 1, [9]), "step 5 over 0-2"],
    ]);
    expectTable(serving(0, 2, { needsOnnx: true }), [
      [step(1, 1, [7, 8]), "send stepFailed sequence 1 epoch 1 invalid_argument"],
      [step(2, 1, [8]), "step 2 over 0-2"],
    ]);
  });

  it("epochs only rise, and of too many at a time the connection ends", () => {
    expectTable(serving(0, 2), [[prepare(1, 0, 2), "finish retry"]]);
    const membership = serving(0, 2);
    for (let epoch = 2; epoch <= kMaxBindings; ++epoch) tell(membership, prepare(epoch, 0, 2));
    expectTable(membership, [[prepare(kMaxBindings + 1, 0, 2), "finish retry"]]);
  });

  it("several bindings compute beside each other until Retire names them no more", () => {
    const membership = serving(0, 2);
    for (const [epoch, first, end] of [[2, 0, 3], [3, 3, 4]] as const) {
      tell(membership, prepare(epoch, first, end));
      tell(membership, kFetched);
      for (let layer = first; layer < end; ++layer) tell(membership, installed);
    }
    expectTable(membership, [
      [step(1, 3), "step 1 over 3-4"],
      [step(2, 1)],
      [computed, "send result", "step 2 over 0-2"],
      [computed, "send result"],
      [retire([1, 3], 0, 6), "keep 0-6"],
      [kDone],
      [step(3, 2), "send stepFailed sequence 3 epoch 2 invalid_argument"],
      [step(4, 1), "step 4 over 0-2"],
      [computed, "send result"],
      [retire([1, 3], 1, 6), "keep 1-6"],
      [kDone],
      [step(5, 1), "send stepFailed sequence 5 epoch 1 invalid_argument"],
      [step(6, 3), "step 6 over 3-4"],
    ]);
  });

  it("forks keep their place among the steps, and nothing answers them", () => {
    const fork = (epoch: number, session: number, positionCount = 9): Told => {
      const frame = { epoch, stage: 0, from: 1, session, generation: 2, positionCount };
      return received(encodeFork(frame));
    };
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [fork(1, 2)],
      [step(2, 1)],
      [computed, "send result", "fork 1 into 2 at 9 over 0-2"],
      [kDone, "step 2 over 0-2"],
      [computed, "send result"],
      [fork(9, 3)], // of no binding
      [fork(1, kMeasureSession)],
      [received(encodeFork({
        epoch: 1, stage: 0, from: 2, session: 2, generation: 2, positionCount: 9,
      })), "finish retry"],
    ]);
    expectTable(made(), [[fork(1, 2), "finish retry"]]);
  });

  it("sessions and their sampling keep their place among the steps", () => {
    const sampling: ServerKind = { case: "sampling", value: { session: 1, generation: 1 } };
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [sampling],
      [{ case: "invalidateSessions", value: { sessions: [1, 2] } }],
      [step(2, 1)],
      [computed, "send result", "takeSampling"],
      [kDone, "release 1,2"],
      [kDone, "step 2 over 0-2"],
      [computed, "send result"],
      [sampling, "takeSampling"],
      [failed(fault("invalid_data")), "finish retry"],
    ]);
  });
});

describe("fetches", () => {
  it.each<[string, Row[]]>([
    ["standby layers come one after another", [
      [download(4, 5), "fetch 4-5"],
      [kFetched, "fetch 5-6"],
      [kFetched],
    ]],
    ["one that fails is said, and the next is tried", [
      [download(4, 5), "fetch 4-5"],
      [{ kind: "fetchEnded", fault: fault("not_found") }, "send failed epoch 0 not_found",
        "fetch 5-6"],
    ]],
    ["a stage overtakes standby layers, which go on afterwards", [
      [download(4, 5), "fetch 4-5"],
      [prepare(1, 0, 1), "interruptFetch"],
      [download(3)],
      [interrupted, "fetch 0-1"],
      [kFetched, "fetch 4-5", "install 0-1 of 1"],
      [kFetched, "fetch 5-6"],
      [kFetched, "fetch 3-4"],
    ]],
    ["what ended before it heard of the interruption is there", [
      [download(4), "fetch 4-5"],
      [prepare(1, 0, 1), "interruptFetch"],
      [kFetched, "fetch 0-1"],
      [kFetched, "install 0-1 of 1"],
    ]],
    ["measurements come in their order, and leave nothing loaded", [
      [{ case: "measureSpeed", value: { ranges: [{ first: 1, end: 2 }], runs: 3 } }, "fetch 1-2"],
      [prepare(1, 0, 1)],
      [kFetched, "fetch 0-1", "measure 1-2"],
      [done({ kind: "measured", timings: [], answers: [] }), "send measured", "keep 0-1"],
    ]],
    ["a measurement that fails is said", [
      [{ case: "measureSpeed", value: { ranges: [{ first: 1, end: 2 }], runs: 3 } }, "fetch 1-2"],
      [kFetched, "measure 1-2"],
      [failed(fault("out_of_memory")), "send failed epoch 0 out_of_memory", "keep "],
    ]],
    ["of layers that do not exist end the connection", [[download(1, 6), "finish retry"]]],
  ])("%s", (_, rows) => expectTable(joined(), rows));
});

describe("generating", () => {
  it("tells what is made of each, and ends those that nobody wants", () => {
    expectTable(serving(0, 6), [
      [generate(5, 1), "make tokens 5"],
      [generate(6, 1, 2), "joinTokens 6"],
      [told(5, [4, 5]), "send tokens 5 [4,5]"],
      [told(6, [7, 8]), "send tokens 6 [7,8]"],
      [stop(5, 1), "stopTokens 5"],
      [stop(9, 1)],
      [told(5, [6, 7]), "send tokens 5 [6,7] last"],
      [told(6, [9], true), "send tokens 6 [9] last"],
      [told(5, [8])], // was on its way
      [kPaused],
      [generate(7, 1), "make tokens 7"],
      [failed(fault("unavailable")), "send stepFailed sequence 7 epoch 1 unavailable"],
    ]);
  });

  it("lets one step pass between two batches", () => {
    expectTable(serving(0, 6), [
      [generate(5, 1), "make tokens 5"],
      [step(6, 1, [2]), "pauseTokens"],
      [step(7, 1, [2])],
      [generate(8, 1, 2)], // behind the steps
      [told(5, [4, 5]), "send tokens 5 [4,5]"],
      [kPaused, "step 6 over 0-6"],
      [computed, "send result", "make tokens 5", "pauseTokens"],
      [told(5, [6, 7]), "send tokens 5 [6,7]"],
      [kPaused, "step 7 over 0-6"],
      [computed, "send result", "make tokens 5", "joinTokens 8"],
    ]);
  });

  it("goes on behind what was told", () => {
    const membership = serving(0, 6);
    tell(membership, generate(5, 1));
    tell(membership, told(5, [4, 5]));
    tell(membership, step(6, 1, [2]));
    tell(membership, kPaused);
    const work = tell(membership, computed).map((action) =>
      action.kind === "compute" ? action.work : null,
    );
    expect(work.find((each) => each?.kind === "makeTokens")).toMatchObject({
      frames: [{ sequence: 5, position: 2, token: 5, count: 6 }],
    });
  });

  it("ends one whose session is over, and one that fails alone", () => {
    const over: Told = { case: "invalidateSessions", value: { sessions: [1] } };
    expectTable(serving(0, 6), [
      [generate(5, 1), "make tokens 5"],
      [generate(6, 1, 2), "joinTokens 6"],
      [over, "stopTokens 5", "pauseTokens"],
      [kPaused, "release 1"],
      [kDone, "send tokens 5 [] last", "make tokens 6"],
      [{ kind: "tokensFailed", sequence: 6, fault: fault("invalid_data") },
        "send stepFailed sequence 6 epoch 1 invalid_data"],
      [kPaused],
    ]);
  });

  it("takes turns with a server from before there were batches", () => {
    const membership = made();
    tell(membership, init({ batchesTokens: false }));
    tell(membership, kJoined);
    tell(membership, prepare(1, 0, 6));
    tell(membership, kFetched);
    for (let layer = 0; layer < 6; ++layer) tell(membership, installed);
    expectTable(membership, [
      [generate(5, 1), "make tokens 5"],
      [step(6, 1, [2])],
      [generate(7, 1, 2)],
      [told(5, [4, 5]), "send tokens 5 [4,5]"],
      [told(5, [6], true), "send tokens 5 [6] last"],
      [kPaused, "step 6 over 0-6"],
      [computed, "send result", "make tokens 7"],
    ]);
  });

  it("wants the whole model, prepared", () => {
    expectTable(serving(0, 5), [
      [generate(5, 1), "send stepFailed sequence 5 epoch 1 invalid_argument"],
    ]);
    expectTable(serving(0, 6), [
      [generate(5, 2), "send stepFailed sequence 5 epoch 2 invalid_argument"],
    ]);
  });

  it("the user's wish is said when it changes, and again after a reconnection", () => {
    expectTable(joined(), [
      [{ kind: "wholeWished", isWanted: true, apiKey: "" }, "send runHere"],
      [wholeModel(WholeModel.here)],
      [wholeModel(WholeModel.fits), "wholeEnded"],
      [wholeModel(WholeModel.tooLarge)],
    ]);
    expectTable(made({ wantsWhole: true }), [
      [kInit, "limitSilence 3000", "join"],
      [kJoined, "send connect", "send runHere"],
    ]);
    expectTable(made(), [
      [{ kind: "wholeWished", isWanted: true, apiKey: "" }],
      [kInit, "limitSilence 3000", "join"],
      [kJoined, "send connect", "send runHere"],
    ]);
  });

  it("the wish ends with the sentence that refuses it, and not while somebody is asked", () => {
    const wish: Told = { kind: "wholeWished", isWanted: true, apiKey: "k" };
    const shown = (membership: Membership, told: Told): unknown[] =>
      tell(membership, told).flatMap((it) => it.kind === "show" && "whole" in it.shown
        ? [[it.shown.whole, it.shown.wholeMessage]] : []);
    expectTable(joined(), [
      [wholeModel(WholeModel.fits)],
      [wish, "send runHere"],
      [wholeModel(WholeModel.fits)], // it was on its way already
      [wholeModel(WholeModel.fits, "Once a minute."), "wholeEnded"],
      [wholeModel(WholeModel.fits, "Once a minute.")],
      [wish, "send runHere"],
      [wholeModel(WholeModel.asked, "The owner is asked.")],
      [wholeModel(WholeModel.fits, "The owner said no."), "wholeEnded"],
    ]);
    const membership = joined();
    tell(membership, wish);
    expect(shown(membership, wholeModel(WholeModel.asked, "Asked.")))
      .toEqual([["asked", "Asked."]]);
    expect(shown(membership, wholeModel(WholeModel.here))).toEqual([["here", ""]]);
  });

  it("a frame that only workers send ends the connection", () => {
    const frame = encodeGeneration({ kind: "runHere", isWanted: true, apiKey: "" });
    expectTable(joined(), [[received(frame), "finish retry"]]);
  });
});

describe("what the page is told", () => {
  const phases = (membership: Membership, told: Told): (string | undefined)[] =>
    tell(membership, told).flatMap((it) => it.kind === "show" ? [it.shown.phase] : []);

  it("goes from one phase to the next, and never through a wrong one", () => {
    const membership = joined();
    const rows: [Told, (string | undefined)[]][] = [
      [prepare(1, 0, 2), []],
      [{ kind: "fetchProgressed", doneBytes: 1, totalBytes: 30 }, ["downloading"]],
      [retire([1], 0, 2), [undefined]], // still downloading
      [kDone, [undefined]],
      [there(0), [undefined]], // and installed beside it
      [kFetched, [undefined, "loading"]],
      [installed, ["loading"]],
      [installed, ["ready"]],
      [step(1, 1), ["computing"]],
      [computed, ["ready"]],
    ];
    for (const [told, expected] of rows) expect(phases(membership, told)).toEqual(expected);
  });

  it("a failure stays until a stage is prepared", () => {
    const membership = made({ note: "The GPU gives 5 MB." });
    const messageAfter = (told: Told): string =>
      tell(membership, told).flatMap((it) => it.kind === "show" ? [it.shown.message] : []).at(-1)!;
    for (const told of [kInit, kJoined, prepare(1, 0, 1)]) tell(membership, told);
    expect(messageAfter({ kind: "fetchEnded", fault: fault("io", "Torn.") }))
      .toBe("Connected, waiting for work. Torn. The GPU gives 5 MB.");
    for (const told of [prepare(2, 0, 1), kFetched]) tell(membership, told);
    expect(messageAfter(installed)).toBe("Ready: its layers are loaded. The GPU gives 5 MB.");
  });

  it("a standby says so until steps come for it", () => {
    const membership = joined();
    for (const told of [prepare(1, 0, 1, true), kFetched]) tell(membership, told);
    const shown = (told: Told): Shown[] =>
      tell(membership, told).flatMap((it) => it.kind === "show" ? [it.shown] : []);
    expect(shown(installed)).toMatchObject([{
      phase: "ready", layers: [0, 1], message: "Ready to take over: its layers are loaded.",
    }]);
    shown(step(1, 1));
    expect(shown(computed)).toMatchObject([{ message: "Ready: its layers are loaded." }]);
  });
});
