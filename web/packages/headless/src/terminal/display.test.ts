// What a terminal shows, and what a log is told.
import { expect, it } from "vitest";

import { initialStatus } from "@weft/worker/threads/messages.ts";
import type { WorkerStatus } from "@weft/worker/threads/messages.ts";

import { Display } from "./display.ts";
import { Rate } from "./rate.ts";
import { plainText } from "./words.ts";

const kReady: WorkerStatus = {
  ...initialStatus(), phase: "ready", message: "Ready.", modelName: "qwen", layers: [4, 10],
  layerCount: 10, engine: "webgpu", engineDetail: "int16", memoryBytes: 2 ** 30, usedBytes: 2 ** 29,
};
const kMB = 1e6;

function shown(isTTY: boolean): { display: Display; text: () => string; at: (ms: number) => void } {
  let text = "";
  let nowMs = 0;
  const output = { isTTY, columns: 60, write: (more: string) => (text += more) };
  const display = new Display(output, () => nowMs);
  return { display, text: () => text, at: (ms) => (nowMs = ms) };
}

function downloading(doneBytes: number): WorkerStatus {
  return {
    ...initialStatus(), phase: "downloading", download: { doneBytes, totalBytes: 100 * kMB },
  };
}

it("a log gets a line for what changes, and not one for each step", () => {
  const { display, text, at } = shown(false);
  display.show({ ...kReady, phase: "connecting", message: "Connecting to host." });
  for (let step = 0; step < 5; ++step) {
    at(step * 100);
    display.show({ ...kReady, phase: step % 2 ? "computing" : "ready", rowsComputed: step });
  }
  const lines = text().trimEnd().split("\n").map((line) => line.replace(/^\d\d:\d\d:\d\d /, ""));
  expect(lines).toEqual([
    "Connecting. Connecting to host.",
    "Ready: layers 4–8 and the head of qwen. 0.5 of 1 GiB, webgpu: int16.",
  ].map((line) => line.replace("0.5 of", "512 MiB of")));
});

it("a log hears of a download now and then, with its rate", () => {
  const { display, text, at } = shown(false);
  for (let second = 0; second <= 6; ++second) {
    at(second * 1000);
    display.show(downloading(second * 10 * kMB));
  }
  expect(text().match(/Downloading/g)).toHaveLength(2);
  expect(text()).toContain("50 MB of 100 MB (50%). 10 MB/s.");
});

it("a terminal has a card in one place", () => {
  const { display, text } = shown(true);
  display.show(kReady);
  const card = text();
  expect(card).toContain("Ready. Computes as soon as somebody asks.\n");
  expect(card).toMatch(/Holds +layers 4–8 and the head\n/);
  expect(card).toMatch(/Memory used +512 MiB of 1 GiB\n/);
  display.show(kReady);
  const lineCount = card.split("\n").length - 1;
  expect(text()).toBe(`${card}\u001b[${lineCount}A\u001b[J${card}`);
  display.say("A sentence.");
  expect(text().endsWith(`\u001b[${lineCount}A\u001b[JA sentence.\n`)).toBe(true);
});

it("whoever holds experts only says so", () => {
  const { display, text } = shown(true);
  display.show({ ...kReady, layers: null, expertsHeld: 12, expertCalls: 7 });
  expect(text()).toMatch(/Holds +experts only\n/);
  expect(text()).toMatch(/Experts held +12\n/);
  expect(text()).toMatch(/Expert calls +7\n/);
});

it("what others wrote cannot move the cursor or turn the writing around", () => {
  expect(plainText("a\u001b[2Jb\r\n\u202ec")).toBe("a [2Jb   c");
});

it("a rate is that of the last seconds, and begins anew with another download", () => {
  const rate = new Rate();
  expect([rate.add(0, 0), rate.add(100, 1000), rate.add(200, 2000)]).toEqual([0, 100, 100]);
  for (let second = 3; second < 9; ++second) rate.add(200 + 1000 * (second - 2), second * 1000);
  expect(rate.add(7200, 9000)).toBeCloseTo(1000, 0);
  expect([rate.add(0, 10_000), rate.add(50, 11_000)]).toEqual([0, 50]);
});
