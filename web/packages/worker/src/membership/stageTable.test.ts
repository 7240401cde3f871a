// Which steps may run: only those of an epoch and stage that was prepared and is loaded.
import { beforeEach, describe, expect, it } from "vitest";

import { StageTable, kMaxBindings } from "./stageTable.ts";

let table: StageTable;
beforeEach(() => {
  table = new StageTable();
});

function bind(epoch: number, stage: number, first: number, end: number, isStandby = false): void {
  expect(table.prepare(epoch, stage, { first, end }, isStandby)).toBe(true);
  table.setLoaded(epoch);
}

it("a binding is usable once it is loaded, under its own number and stage", () => {
  table.prepare(3, 1, { first: 2, end: 5 }, false);
  expect(table.toRun(3, 1)).toBeUndefined();
  expect(table.unfinished(3)?.layers).toEqual({ first: 2, end: 5 });
  table.setLoaded(3);
  expect(table.unfinished(3)).toBeUndefined();
  expect(table.toRun(3, 1)).toEqual({ first: 2, end: 5 });
  expect(table.toRun(3, 0)).toBeUndefined();
  expect(table.toRun(4, 1)).toBeUndefined();
});

it("several are held beside each other, whatever is loaded of them", () => {
  bind(1, 0, 0, 2);
  table.prepare(2, 0, { first: 0, end: 4 }, false);
  bind(3, 1, 4, 6, true);
  expect(table.toRun(1, 0)).toEqual({ first: 0, end: 2 });
  expect(table.toRun(2, 0)).toBeUndefined();
  expect(table.toRun(3, 1)).toEqual({ first: 4, end: 6 });
  table.remove(2);
  expect(table.ranges()).toEqual([{ first: 0, end: 2 }, { first: 4, end: 6 }]);
});

it("epochs only rise, also behind those that are gone", () => {
  bind(3, 0, 0, 2);
  table.clear();
  for (const epoch of [2, 3]) {
    expect(table.prepare(epoch, 0, { first: 0, end: 2 }, false)).toBe(false);
  }
  bind(4, 0, 0, 2);
});

it("there is room for so many and no more, and nothing makes way by itself", () => {
  for (let epoch = 1; epoch <= kMaxBindings; ++epoch) bind(epoch, 0, 0, 4);
  expect(table.prepare(kMaxBindings + 1, 0, { first: 0, end: 4 }, false)).toBe(false);
  expect(table.toRun(1, 0)).toEqual({ first: 0, end: 4 });
  table.keepOnly([1], [{ first: 0, end: 4 }]);
  bind(kMaxBindings + 1, 0, 0, 4);
});

it("keepOnly forgets what is not named, and what does not stay loaded as a whole", () => {
  bind(1, 0, 0, 4);
  bind(2, 0, 1, 3);
  bind(3, 0, 1, 3);
  table.keepOnly([1, 2], [{ first: 1, end: 3 }, { first: 3, end: 4 }]);
  expect(table.ranges()).toEqual([{ first: 1, end: 3 }]);
  expect(table.toRun(2, 0)).toEqual({ first: 1, end: 3 });
});

describe("what is shown", () => {
  it("is what steps come for, else the newest that is loaded and not for standby", () => {
    expect(table.shown()).toBeUndefined();
    bind(1, 0, 4, 6, true);
    expect(table.shown()).toMatchObject({ layers: { first: 4, end: 6 }, isStandby: true });
    bind(2, 0, 0, 2);
    bind(3, 0, 2, 4, true);
    table.prepare(4, 0, { first: 0, end: 6 }, false);
    expect(table.shown()).toMatchObject({ layers: { first: 0, end: 2 }, isStandby: false });
    table.toRun(1, 0); // the standby has taken over
    expect(table.shown()).toMatchObject({ layers: { first: 4, end: 6 }, isStandby: false });
    table.keepOnly([3], [{ first: 0, end: 6 }]);
    expect(table.shown()).toMatchObject({ layers: { first: 2, end: 4 }, isStandby: true });
  });
});
