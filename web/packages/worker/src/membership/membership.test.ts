// What is particular to a tab's membership: stages that come layer by layer, an engine that goes on
// making tokens and may lose its device, the user's wish and the page. The rules that workers share
// are cases of tests/conformance/membership (rulebook.test.ts).
import { describe, expect, it } from "vitest";

import { WholeModel } from "@weft/wire";

import {
  computed, expectTable, failed, fault, generate, installed, interrupted, joined, kDone, kFetched,
  kInit, kJoined, kPaused, kPing, made, prepare, retire, serving, step, stop, tell, there, told,
  wholeModel,
} from "../test/membershipTable.ts";
import type { Row, Told } from "../test/membershipTable.ts";
import type { Shown } from "./events.ts";
import type { Membership } from "./membership.ts";

it("an ending instead of Connect", () => {
  expectTable(made(), [
    [kInit, "limitSilence 3000", "join"],
    [{ kind: "joined", as: { kind: "notLowered", message: "No programs." } }, "finish notLowered"],
    [kPing],
  ]);
});

// The engine computes steps of one session side by side: a frame of a prompt behind another.
it("a step begins behind the one that it follows in its session", () => {
  expectTable(serving(0, 2, { stepsInFlight: 2, stepsFollow: true }), [
    [step(1, 1, [1], 0), "step 1 over 0-2"],
    [step(2, 1, [1], 1), "step 2 over 0-2"],
    [step(3, 1, [1], 2)], // only two at once
    [computed, "send result", "step 3 over 0-2"],
    [step(4, 1, [1], 7)], // begins elsewhere: once all have ended
    [step(5, 1, [2], 0)], // does not overtake
    [computed, "send result"],
    [computed, "send result", "step 4 over 0-2", "step 5 over 0-2"],
  ]);
});

describe("stages", () => {
  it.each<[string, Row[]]>([
    ["a layer that does not fit is said, and what was installed goes", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [kFetched, "install 0-1 of 1"],
      [installed, "install 1-2 of 1"],
      [failed(fault("out_of_memory")), "send failed binding 1 out_of_memory", "keep "],
    ]],
    ["a kernel that the driver refuses asks for another engine", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [kFetched, "install 0-1 of 1"],
      [failed(fault("unsupported", "matvec", true)), "finish engineFailed"],
    ]],
    ["a stage that was retired is not installed any further", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [kFetched, "install 0-1 of 1"],
      [prepare(2, 3, 4), "fetch 3-4"],
      [retire([2], 3, 4)],
      [installed, "keep 3-4"],
      [kDone],
      [step(1, 1), "send stepFailed sequence 1 binding 1 invalid_argument"],
    ]],
    ["layers are installed as they come, one after the other", [
      [prepare(1, 0, 3), "fetch 0-3"],
      [there(0), "send layerDownloaded layer 0", "install 0-1 of 1"],
      [there(1), "send layerDownloaded layer 1"],
      [installed, "install 1-2 of 1"],
      [installed],
      [there(2), "send layerDownloaded layer 2", "install 2-3 of 1"],
      [kFetched],
      [installed, "send prepared binding 1"],
    ]],
    ["what was installed goes where the rest of the fetch fails", [
      [prepare(1, 0, 2), "fetch 0-2"],
      [there(0), "send layerDownloaded layer 0", "install 0-1 of 1"],
      [{ kind: "fetchEnded", fault: fault("io") }, "send failed binding 1 io"],
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
      [kFetched, "fetch 1-2"],
      [there(1), "send layerDownloaded layer 1"],
      [installed, "install 5-6 of 2"],
      [installed, "send prepared binding 2", "install 1-2 of 1"],
      [kFetched],
      [installed, "send prepared binding 1"],
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
      [installed, "send prepared binding 3", "install 1-2 of 1"],
      [installed, "send prepared binding 1"],
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
      [installed, "send prepared binding 2", "step 6 over 0-2"],
    ]);
  });

  it("three failures of the engine in a row end the connection, others do not count", () => {
    expectTable(serving(0, 2), [
      [step(1, 1), "step 1 over 0-2"],
      [failed(fault("unavailable")), "send stepFailed sequence 1 binding 1 unavailable"],
      [step(2, 1), "step 2 over 0-2"],
      [failed(fault("unavailable")), "send stepFailed sequence 2 binding 1 unavailable"],
      [step(3, 1), "step 3 over 0-2"],
      [computed, "send result"],
      ...[4, 5, 6, 7].flatMap((sequence): Row[] => [
        [step(sequence, 1), `step ${sequence} over 0-2`],
        [failed(fault("invalid_data")),
          `send stepFailed sequence ${sequence} binding 1 invalid_data`],
      ]),
      ...[8, 9].flatMap((sequence): Row[] => [
        [step(sequence, 1), `step ${sequence} over 0-2`],
        [failed(fault("unavailable")),
          `send stepFailed sequence ${sequence} binding 1 unavailable`],
      ]),
      [step(10, 1), "step 10 over 0-2"],
      [failed(fault("unavailable")), "send stepFailed sequence 10 binding 1 unavailable",
        "finish engineStopped"],
      [kPing],
    ]);
  });

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
      [failed(fault("unavailable")), "send stepFailed sequence 7 binding 1 unavailable"],
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
