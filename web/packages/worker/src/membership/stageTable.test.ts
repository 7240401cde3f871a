// Which steps may run: only those of an epoch and stage that was prepared, loaded and committed.
import { beforeEach, describe, expect, it } from "vitest";

import { StageTable } from "./stageTable.ts";

let table: StageTable;
beforeEach(() => {
  table = new StageTable();
});

function commit(epoch: number, stage: number, first: number, end: number): void {
  table.prepare(epoch, stage, { first, end });
  table.setLoaded(epoch);
  expect(table.commit(epoch)).toBe(true);
}

it("a stage is usable once it is loaded and committed, under its own number", () => {
  table.prepare(3, 1, { first: 2, end: 5 });
  expect(table.commit(3)).toBe(false);
  table.setLoaded(3);
  expect(table.layersOf(3, 1)).toBeUndefined();
  expect(table.active()).toBeUndefined();
  expect(table.commit(3)).toBe(true);
  expect(table.layersOf(3, 1)).toEqual({ first: 2, end: 5 });
  expect(table.layersOf(3, 0)).toBeUndefined();
  expect(table.layersOf(4, 1)).toBeUndefined();
  expect(table.active()).toEqual({ first: 2, end: 5 });
});

it("preparing an epoch anew takes its commit back", () => {
  commit(3, 0, 0, 2);
  table.prepare(3, 0, { first: 0, end: 4 });
  expect(table.layersOf(3, 0)).toBeUndefined();
  expect(table.commit(3)).toBe(false);
});

it("the epoch committed last is the active one while an older one may still be asked for", () => {
  commit(1, 0, 0, 2);
  commit(2, 0, 0, 4);
  expect(table.active()).toEqual({ first: 0, end: 4 });
  expect(table.layersOf(1, 0)).toEqual({ first: 0, end: 2 });
});

describe("keepWithin", () => {
  it("forgets what does not stay loaded as a whole", () => {
    commit(1, 0, 0, 4);
    commit(2, 0, 1, 3);
    table.keepWithin([{ first: 1, end: 3 }, { first: 3, end: 4 }]);
    expect(table.find(1)).toBeUndefined();
    expect(table.find(2)).toEqual({ first: 1, end: 3 });
    expect(table.ranges()).toEqual([{ first: 1, end: 3 }]);
    table.clear();
    expect(table.active()).toBeUndefined();
  });
});

it("a new epoch replaces older ones that are not loaded", () => {
  table.prepare(1, 0, { first: 0, end: 1 });
  table.prepare(2, 0, { first: 0, end: 2 });
  expect(table.find(1)).toBeUndefined();
  expect(table.isUnfinished(2)).toBe(true);
  table.setLoaded(2);
  expect(table.isUnfinished(2)).toBe(false);
  table.prepare(3, 0, { first: 0, end: 3 });
  expect(table.find(2)).toEqual({ first: 0, end: 2 });
});

it("preparing for ever neither fills the memory nor evicts the committed stage", () => {
  commit(1, 0, 0, 4);
  for (let epoch = 2; epoch <= 1000; ++epoch) {
    table.prepare(epoch, 0, { first: 0, end: 1 });
    table.setLoaded(epoch);
  }
  expect(table.ranges()).toHaveLength(16);
  expect(table.find(1000)).toBeDefined();
  expect(table.find(984)).toBeUndefined();
  expect(table.layersOf(1, 0)).toEqual({ first: 0, end: 4 });
  expect(table.active()).toEqual({ first: 0, end: 4 });
});
