// What a tab does where its connection breaks beside what all workers do (rulebook.test.ts): it has
// installed some layers of a stage, and makes tokens without being asked for each batch.
import { it } from "vitest";

import {
  computed, done, download, expectTable, generate, init, installed, interrupted, joined, kDone,
  kFetched, kInit, kPaused, prepare, serving, step, there, told,
} from "../test/membershipTable.ts";
import type { Event } from "./events.ts";

const kAgain: Event = { kind: "connectedAgain", now: 0 };
const lost = (now = 0): Event => ({ kind: "connectionLost", now });
// What the engine holds of session 1 in each of the bindings.
const stock = (...bindings: [binding: number, positions: number][]): Event => done({
  kind: "stock",
  bindings: bindings.map(([id, positions]) => ({
    id,
    stage: 0,
    layers: { first: 0, end: 2 },
    sessions: positions > 0 ? [1] : [],
    positions: positions > 0 ? [positions] : [],
  })),
});

it("a Generate ends, and is not told", () => {
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

it("a layer that was installed of a stage goes again", () => {
  expectTable(serving(0, 2), [
    [prepare(2, 3, 5), "fetch 3-5"],
    [kFetched, "install 3-4 of 2"],
    [step(1, 1)],
    [installed, "step 1 over 0-2"],
    [lost(), "keepFor 60000"],
    [computed, "keep 0-2"],
    [kDone],
    [kAgain],
    [kInit, "limitSilence 3000", "takeStock of 1, sessions 1"],
    [stock([1, 1]), "send connect 1: s1 at 1"],
    [prepare(3, 3, 5), "fetch 3-5"], // and the next one is loaded as ever
    [kFetched, "install 3-4 of 3"],
    [installed, "install 4-5 of 3"],
    [installed, "send prepared binding 3"],
  ]);
});

it("another package waits for a layer that is being installed", () => {
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
