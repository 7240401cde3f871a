// Schedules of failures: their rates, their kinds in equal parts, whom they meet; names of cells.
import assert from "node:assert/strict";
import { test } from "node:test";

import { allCells, availabilityBar, selectCells } from "./cells.mjs";
import { scheduleOf, targetOf } from "./schedule.mjs";

const kHour = 3_600_000;
const swarm = { failures: "swarm", workers: 10, needed: 3 };

test("the same seed gives the same schedule, another one another", () => {
  const schedule = scheduleOf(swarm, 120_000, 7);
  assert.deepEqual(scheduleOf(swarm, 120_000, 7), schedule);
  assert.notDeepEqual(scheduleOf(swarm, 120_000, 8), schedule);
  assert.ok(schedule.every(({ atMs, downMs, pick }, i) => atMs > (schedule[i - 1]?.atMs ?? 0) &&
    atMs < 120_000 && downMs >= 1000 && downMs <= 10_000 && pick >= 0 && pick < 1));
});

test("10 s between failures of the swarm, or of each worker that is needed", () => {
  const count = (cell) => scheduleOf({ ...swarm, ...cell }, kHour, 1).length;
  assert.ok(Math.abs(count({}) - 360) < 60);
  assert.ok(Math.abs(count({ failures: "needed" }) - 3 * 360) < 100);
});

test("a ramp grows from nothing to the rate of every worker", () => {
  const schedule = scheduleOf({ ...swarm, failures: "ramp" }, kHour, 1);
  const quarters = [0, 0, 0, 0];
  for (const { atMs } of schedule) ++quarters[Math.floor((atMs / kHour) * 4)];
  [1 / 8, 3 / 8, 5 / 8, 7 / 8].forEach((share, i) =>
    assert.ok(Math.abs(quarters[i] - share * 900) < 100, `${quarters}`));
});

test("kinds come in equal parts", () => {
  const counts = {};
  const schedule = scheduleOf(swarm, kHour, 3);
  for (const { kind } of schedule) counts[kind] = (counts[kind] ?? 0) + 1;
  const values = Object.values(counts);
  assert.equal(values.length, 3);
  assert.ok(Math.max(...values) - Math.min(...values) <= 1);
});

test("a failure meets a healthy worker, and one that computes where it is aimed at such", () => {
  const healthy = [true, false, true, true];
  assert.equal(targetOf(swarm, 0, healthy, [3]), 0);
  assert.equal(targetOf(swarm, 0.99, healthy, [3]), 3);
  assert.equal(targetOf(swarm, 0.5, [false, false], []), null);
  const needed = { failures: "needed", needed: 2 };
  assert.equal(targetOf(needed, 0.4, healthy, [2, 3]), 2);
  assert.equal(targetOf(needed, 0.6, healthy, [2, 3]), 3);
  // One of the two that are needed has failed already: its share of the failures meets nobody.
  assert.equal(targetOf(needed, 0.4, healthy, [1, 3]), 3);
  assert.equal(targetOf(needed, 0.6, healthy, [1, 3]), null);
  assert.equal(targetOf(needed, 0.6, healthy, []), 2, "nobody computes");
  const ramp = { failures: "ramp", needed: 2 };
  assert.equal(targetOf(ramp, 0.3, healthy, []), null, "it has failed already");
  assert.equal(targetOf(ramp, 0.6, healthy, []), 2);
});

test("cells have names of their own, and patterns choose among them", () => {
  const names = allCells().map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  assert.equal(selectCells("tiny-*-25-128").length, 15, "12 of the grid, three with a ramp");
  assert.ok(selectCells("*-ramp-*").every(({ seconds, workers }) =>
    seconds === 600 && workers === 10));
  assert.deepEqual(selectCells("0.6b-3of4-swarm-25-128").map(({ needed }) => needed), [3]);
  assert.throws(() => selectCells("0x6b-*"), /no cell is called 0x6b-\*/);
});

test("bars of availability hold for short prompts and failures of the swarm", () => {
  const barOf = (name) => availabilityBar(selectCells(name)[0]);
  assert.equal(barOf("tiny-3of10-swarm-25-128"), 0.99);
  assert.equal(barOf("tiny-3of4-swarm-25-1024"), 0.97);
  for (const name of ["tiny-3of4-needed-25-128", "tiny-3of4-swarm-2600-128",
    "tabs-tiny-1of3-swarm-25-128", "tiny-3of10-ramp-25-128"]) assert.equal(barOf(name), null);
});
