// What the page shows of the bindings; which steps they run is in the rulebook.
import { beforeEach, describe, expect, it } from "vitest";

import { StageTable } from "./stageTable.ts";

let table: StageTable;
beforeEach(() => {
  table = new StageTable();
});

function bind(binding: number, stage: number, first: number, end: number, isStandby = false): void {
  expect(table.prepare(binding, stage, { first, end }, isStandby)).toBe(true);
  table.setLoaded(binding);
}

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
