// The swarm's states over time and the recovery model, on small cases.
import assert from "node:assert/strict";
import { test } from "node:test";

import { loadRate, modelledDownMs, recoveryMs } from "./recovery_model.mjs";
import { ewma, rollingShares, spansOf, timeInStates, transitionsOf } from "./states.mjs";

const changes = [
  { at: 0, state: "up", planVersion: 1 }, { at: 2, state: "up", planVersion: 1 },
  { at: 4, state: "down", planVersion: 1 }, { at: 5, state: "up", planVersion: 2 },
  { at: 7, state: "up", planVersion: 3 },
];

test("spans join equal pictures, and a new plan begins a new one", () => {
  const spans = spansOf(changes, 10);
  assert.deepEqual(spans.map(({ state, from, to }) => [state, from, to]),
    [["up", 0, 4], ["down", 4, 5], ["up", 5, 7], ["up", 7, 10]]);
  assert.deepEqual(timeInStates(spans, 3, 6), { down: 1, preparing: 0, repairing: 0, up: 2 });
  assert.deepEqual(transitionsOf(spans).map(({ from, to, seconds }) => [from, to, seconds]),
    [["up", "down", 4], ["down", "up", 1], ["up", "up", 2]]);
});

test("rolling shares look back as far as there is something", () => {
  const shares = rollingShares(spansOf(changes, 10), 6, 2);
  assert.equal(shares[0].up, 1);
  assert.equal(shares[4].down, 0.5, "seconds 3 to 5");
  assert.equal(shares[5].up, 0.5, "seconds 4 to 6");
});

test("a smoothed rate begins at its first value and follows a step", () => {
  assert.deepEqual(ewma([4, 4, 8], 3), [4, 4, 6]);
});

const measured = { medianMs: 2, rowMs: 0.5, loadMsPerByte: 0.01, joinMs: 300 };
const loss = { kind: "kill", lostShare: 0.25, lostBytes: 1000, rows: 400, standby: false,
  belowNeed: false };

test("a loss costs noticing, loading, replaying the lost range and a token", () => {
  assert.equal(recoveryMs(loss, measured), 10 + 50 + 2);
  assert.equal(recoveryMs({ ...loss, standby: true }, measured), 52);
  assert.equal(recoveryMs({ ...loss, kind: "stop" }, measured), 312);
  assert.equal(recoveryMs({ ...loss, kind: "stop", standby: true, belowNeed: true }, measured),
    300 + 62, "the worker that returns has to join and load");
  assert.equal(modelledDownMs([loss, { ...loss, rows: 0 }], measured, 52), 62,
    "what is shorter than an outage does not count");
});

test("the rate of loading is taken over all stages that were prepared", () => {
  const prepares = [{ first: 0, end: 2, ms: 30 }, { first: 2, end: 3, ms: null },
    { first: 2, end: 3, ms: 30 }];
  assert.equal(loadRate(prepares, [100, 200, 300]), 0.1);
  assert.equal(loadRate([], [100]), 0);
});
