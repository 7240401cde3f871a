import { expect, it } from "vitest";
import { AnswerStopwatch } from "./stopwatch.ts";

it("tells the prompt's time from the tokens'", () => {
  const watch = new AnswerStopwatch(1000);
  expect(watch.stats(null)).toBeUndefined();
  for (const nowMs of [1500, 1600, 1700, 2000]) watch.onText(nowMs);
  expect(watch.stats(11)).toEqual({ firstTokenMs: 500, tokens: 11, tokensPerSecond: 20 });
  expect(watch.stats(null)).toEqual({ firstTokenMs: 500, tokens: 4, tokensPerSecond: 6 });
});

it("claims no speed for a single token or no time", () => {
  const watch = new AnswerStopwatch(0);
  watch.onText(100);
  expect(watch.stats(1)).toEqual({ firstTokenMs: 100, tokens: 1, tokensPerSecond: 0 });
  expect(watch.stats(5)?.tokensPerSecond).toBe(0);
});

it("claims no speed where the tokens came together", () => {
  const watch = new AnswerStopwatch(0);
  for (let piece = 0; piece < 40; piece += 1) watch.onText(100 + piece * 0.005);
  expect(watch.stats(40)).toEqual({ firstTokenMs: 100, tokens: 40, tokensPerSecond: 0 });
  watch.onText(200);
  expect(watch.stats(41)?.tokensPerSecond).toBe(400);
});
