import { describe, expect, it } from "vitest";
import {
  availabilityText, devicesText, minutesOf, readHistory, spanMinutes, tokensText,
} from "./history.ts";
import type { HistoryLevel } from "./history.ts";
import { readWhatIf, whatIfText } from "./whatIf.tsx";

const level = { step_s: 10, tokens_per_s: [null, 2, 4], devices: [null, 1, 3], up: [null, 0.5, 1] };

describe("history", () => {
  it("is read, with its times before now", () => {
    const history = readHistory({ levels: [level, { ...level, step_s: 300 }] })!;
    expect(history.hour.tokensPerSecond).toEqual([null, 2, 4]);
    expect(minutesOf(history.day)).toEqual([-10, -5, 0]);
    expect(tokensText(history.hour)).toBe("at most 4 tokens/s");
    expect(devicesText(history.hour)).toBe("from 1 to 3");
    expect(availabilityText(history.hour)).toBe("could answer 75% of the time");
  });

  it("says when there is nothing, or no change", () => {
    const empty = readHistory({ levels: [
      { ...level, tokens_per_s: [null], devices: [null], up: [null] },
      { ...level, devices: [2, 2, 2.2] },
    ] })!;
    expect([tokensText, devicesText, availabilityText].map((text) => text(empty.hour)))
      .toEqual(["nothing yet", "nothing yet", "nothing yet"]);
    expect(devicesText(empty.day)).toBe("2 all the time");
    const idle = { ...empty.day, tokensPerSecond: [0, 0] };
    expect(tokensText(idle)).toBe("no answer was computed");
  });

  it("reaches as far back as somebody looked", () => {
    const up = (count: number): HistoryLevel =>
      ({ stepS: 60, tokensPerSecond: [], devices: [],
        up: [null, ...Array.from({ length: count }, () => 1)] });
    expect([0, 3, 9, 21, 41, 99].map((count) => spanMinutes(up(count), false)))
      .toEqual([8, 8, 8, 20, 40, 60]);
    expect([3, 130, 2000].map((count) => spanMinutes(up(count), true))).toEqual([120, 240, 1440]);
  });

  it.each([null, "x", {}, { levels: [] }, { levels: [level] }, { levels: [level, 4] },
    { levels: [level, { ...level, step_s: 0 }] }, { levels: [level, { ...level, up: [1] }] },
    { levels: [level, { ...level, devices: "many" }] }])("is none in %j", (json) => {
    expect(readHistory(json)).toBeNull();
  });

  it("takes odd values for unknown ones", () => {
    const odd = { ...level, up: ["1", -1, 1] };
    expect(readHistory({ levels: [odd, odd] })?.hour.up).toEqual([null, null, 1]);
  });
});

describe("what if", () => {
  const runs = (us: number): object =>
    ({ runs: true, missing_memory_bytes: 0, predicted_us_per_token: us });
  const lacks = { runs: false, missing_memory_bytes: 1.2e9 };
  it.each([
    [lacks, { ...lacks, missing_memory_bytes: 2e8 }, /still not run: 200 MB of memory/],
    [lacks, { runs: false }, /still not run\.$/],
    [lacks, { ...runs(50_000), first_layer: 3, end_layer: 10 },
      /would run, at about 20(\.0)? tokens\/s\. It would run layers 3–8 and the head\./],
    [runs(50_000), { ...runs(20_000), first_layer: 0, end_layer: 3 },
      /faster: about 50(\.0)? tokens\/s instead of 20(\.0)? tokens\/s/],
    [runs(50_000), { ...runs(50_000), first_layer: 0, end_layer: 3 }, /about as fast as now/],
    [runs(50_000), runs(50_000), /Nothing would get faster/],
  ])("from %j to %j", (now, added, sentence) => {
    expect(whatIfText(readWhatIf({ now, with: added })!, 10)).toMatch(sentence);
  });

  it.each([null, {}, { now: {} }, { now: 4, with: {} }])("reads none from %j", (json) => {
    expect(readWhatIf(json)).toBeNull();
  });
});
