import { describe, expect, it } from "vitest";
import {
  addUse, asleepMs, dataReason, dayOf, readDataLimit, readDataUse, readOwnProblem, readHelpShare,
  shareText,
} from "./limits.ts";

describe("data of a day", () => {
  it("adds up, and begins anew with the day", () => {
    const use = addUse({ day: "2026-11-27", bytes: 5 }, 7, "2026-11-27");
    expect(use.bytes).toBe(12);
    expect(addUse(use, 7, "2026-11-28")).toEqual({ day: "2026-11-28", bytes: 7 });
    expect(readDataUse({ day: "a", bytes: 4 }, "a").bytes).toBe(4);
    for (const saved of [null, 4, {}, { day: "a", bytes: "4" }, { day: "b", bytes: 4 }]) {
      expect(readDataUse(saved, "a")).toEqual({ day: "a", bytes: 0 });
    }
    expect(dayOf(new Date(2026, 0, 5, 23, 59))).toBe("2026-01-05");
  });

  it("ends at the limit", () => {
    const use = { day: "a", bytes: 2e9 };
    expect(dataReason(null, use, "")).toBe("");
    expect(dataReason(5e9, use, "5 GB")).toBe("");
    expect(dataReason(2e9, use, "2 GB")).toContain("limit of 2 GB a day is used up");
  });
});

it("takes choices that are there, and defaults for others", () => {
  expect([readHelpShare(0.25), readHelpShare(0.3), readHelpShare("x")]).toEqual([0.25, 1, 1]);
  expect([1e9, 3, undefined].map(readDataLimit)).toEqual([1e9, null, null]);
  expect([shareText(1), shareText(0.25)]).toEqual(["All the time", "At most 25% of the time"]);
});

it("reads why a device is put aside", () => {
  const problem = "It would slow the swarm down, so it holds no layers.";
  expect(readOwnProblem({ devices: [{ problem: "" }, { problem }] })).toBe(problem);
  for (const json of [null, {}, { devices: 4 }, { devices: [null, { problem: 4 }] }]) {
    expect(readOwnProblem(json)).toBe("");
  }
});

it("tells sleep from a timer that a hidden tab holds back", () => {
  expect(asleepMs(0, 61_000)).toBe(0);
  expect(asleepMs(0, 600_000)).toBe(600_000);
});
