// Waits, outages, shares and takeovers on timelines small enough to be worked out by hand.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  intersection, lengthMs, medianGapMs, outageThresholdMs, outagesOf, possibleTimes, sharesOf,
  takeoversOf, tokensEachSecond, unexplained, union, waitsOf,
} from "./availability.mjs";

const request = (sentAt, tokens, endedAt, failed = false) => ({ sentAt, tokens, endedAt, failed });
const spans = (waits) => waits.map(({ from, to }) => [from, to]);

test("waits are between tokens, and for the first one beyond what a quiet swarm takes", () => {
  const waits = waitsOf([request(0, [30, 40, 55], 55), request(55, [80, 95], null)],
    { from: 0, to: 100 }, 20);
  assert.deepEqual(spans(waits),
    [[20, 30], [30, 40], [40, 55], [75, 80], [80, 95], [95, 100]]);
  assert.deepEqual(waits.map(({ begin }) => begin), [0, 30, 40, 55, 80, 95]);
});

test("a first token that comes sooner than in a quiet swarm is no wait", () => {
  assert.deepEqual(spans(waitsOf([request(0, [15, 18], 18)], { from: 0, to: 50 }, 20)), [[15, 18]]);
});

test("where requests broke off the wait goes on to the next token that comes", () => {
  const requests = [request(0, [10], 400, true), request(420, [], 500, true),
    request(510, [700], 700)];
  assert.deepEqual(spans(waitsOf(requests, { from: 0, to: 1000 }, 5)), [[5, 10], [10, 700]]);
  assert.deepEqual(spans(waitsOf(requests.slice(0, 2), { from: 0, to: 1000 }, 5)),
    [[5, 10], [10, 1000]]);
});

test("waits are cut at the window", () => {
  const waits = waitsOf([request(-50, [-10, 40, 200], 200)], { from: 0, to: 100 }, 0);
  assert.deepEqual(spans(waits), [[0, 40], [40, 100]]);
});

test("an outage is longer than five medians and than the median and 50 ms", () => {
  assert.equal(outageThresholdMs(2), 52);
  assert.equal(outageThresholdMs(60), 300);
  const waits = [{ from: 0, to: 52 }, { from: 60, to: 113 }];
  assert.deepEqual(outagesOf(waits, 2), [{ from: 60, to: 113 }]);
  const regular = Array.from({ length: 21 }, (_, i) => 3 * i);
  assert.equal(medianGapMs([request(0, regular, 60), request(200, [900, 999], 999)], 7), 3);
  assert.equal(medianGapMs([request(200, [900, 999], 999)], 7), 7, "hardly any token came");
});

test("intervals: union, length, intersection", () => {
  const some = [{ from: 5, to: 9 }, { from: 0, to: 3 }, { from: 2, to: 4 }];
  assert.deepEqual(union(some), [{ from: 0, to: 4 }, { from: 5, to: 9 }]);
  assert.equal(lengthMs(some), 8);
  assert.deepEqual(intersection(some, [{ from: 3, to: 6 }]),
    [{ from: 3, to: 4 }, { from: 5, to: 6 }]);
  assert.deepEqual(intersection(some, [{ from: 4, to: 5 }]), []);
});

test("possible is when enough workers are there", () => {
  const absences = [{ from: 10, to: 40 }, { from: 30, to: 60 }, { from: 90, to: Infinity }];
  const window = { from: 0, to: 100 };
  assert.deepEqual(possibleTimes(absences, 3, 2, window),
    [{ from: 0, to: 30 }, { from: 40, to: 100 }]);
  assert.deepEqual(possibleTimes(absences, 3, 3, window),
    [{ from: 0, to: 10 }, { from: 60, to: 90 }]);
  assert.deepEqual(possibleTimes([], 3, 3, window), [window]);
  assert.deepEqual(possibleTimes([{ from: -5, to: 200 }], 1, 1, window), []);
});

test("shares: of the window, and of what was possible of it", () => {
  const shares = sharesOf([{ from: 10, to: 30 }, { from: 50, to: 60 }],
    [{ from: 0, to: 20 }, { from: 40, to: 100 }], { from: 0, to: 100 });
  assert.equal(shares.availability, 0.7);
  assert.equal(shares.possible, 0.8);
  assert.equal(shares.downMs, 20);
  assert.equal(shares.ofPossible, 0.75);
  assert.equal(sharesOf([], [], { from: 0, to: 100 }).ofPossible, null);
});

test("a takeover is the wait that a failure made, also when some tokens still arrived", () => {
  const waits = waitsOf([request(0, [10, 20, 30, 530, 540], 540)], { from: 0, to: 1000 }, 0);
  const possible = [{ from: 0, to: 1000 }];
  for (const atMs of [15, 29, 30, 400]) {
    const [{ ms }] = takeoversOf([{ atMs }], waits, possible);
    assert.equal(ms, 500, `${atMs}`);
  }
  assert.deepEqual(takeoversOf([{ atMs: 535 }], waits, possible).map(({ ms }) => ms), [10]);
});

test("a second failure within a takeover, or one that left too few, makes none", () => {
  const waits = waitsOf([request(0, [10, 510, 520], 520)], { from: 0, to: 1000 }, 0);
  const failures = [{ atMs: 12 }, { atMs: 300 }];
  assert.deepEqual(takeoversOf(failures, waits, [{ from: 0, to: 1000 }]),
    [{ failure: failures[0], ms: 500 }]);
  assert.deepEqual(takeoversOf(failures, waits, [{ from: 0, to: 200 }, { from: 210, to: 1000 }]),
    []);
});

test("an outage without a loss, while enough workers were there, is unexplained", () => {
  const outages = [{ begin: 100, from: 120, to: 200 }, { begin: 900, from: 900, to: 990 }];
  const always = [{ from: 0, to: 1000 }];
  assert.deepEqual(unexplained(outages, [{ atMs: 110 }], always), [outages[1]]);
  assert.deepEqual(unexplained(outages, [{ atMs: 995 }], always), outages);
  assert.deepEqual(unexplained(outages, [], [{ from: 0, to: 950 }]), [outages[0]]);
});

test("tokens of each second", () => {
  const window = { from: 500, to: 3000.0000001 };
  const requests = [request(0, [499, 500, 1499, 1500], 1500), request(1500, [2999, 3100], 3100)];
  assert.deepEqual(tokensEachSecond(requests, window), [2, 1, 1]);
});
