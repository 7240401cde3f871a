// Times the known kernel (threadRound.ts) with threads of this browser.
import type { HelperStart } from "./threadHelper.worker.ts";
import { kRoundBytes, ThreadRound } from "./threadRound.ts";

const kStartMs = 2000;
const kWarmUpMs = 15; // compilers of JavaScript take some rounds
const kMeasureMs = 20;
const kLongestRoundMs = 50;

// Milliseconds of a round on so many threads, the middle one of many; Infinity where such a number
// of threads does not start or does not answer.
export async function timeRound(threads: number): Promise<number> {
  const memory = new SharedArrayBuffer(kRoundBytes);
  const round = new ThreadRound(memory, threads);
  round.fill();
  const helpers = Array.from(
    { length: threads - 1 },
    () => new Worker(new URL("./threadHelper.worker.ts", import.meta.url), { type: "module" }),
  );
  try {
    await Promise.all(
      helpers.map((helper, i) => started(helper, { memory, thread: i + 1, threads })),
    );
    timed(round, kWarmUpMs);
    return timed(round, kMeasureMs);
  } catch {
    return Infinity;
  } finally {
    round.finish();
    for (const helper of helpers) helper.terminate();
  }
}

function started(helper: Worker, start: HelperStart): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error("a thread did not start")), kStartMs);
    helper.onmessage = () => {
      clearTimeout(late);
      resolve();
    };
    helper.onerror = () => {
      clearTimeout(late);
      reject(new Error("a thread cannot be started"));
    };
    helper.postMessage(start);
  });
}

// Browsers round clocks, some to a millisecond: rounds are timed in groups.
const kGroup = 4;

function timed(round: ThreadRound, forMs: number): number {
  const times: number[] = [];
  const begin = performance.now();
  for (let now = begin; now < begin + forMs; ) {
    for (let i = 0; i < kGroup; ++i) {
      if (!round.run(kLongestRoundMs)) throw new Error("a thread does not answer");
    }
    const end = performance.now();
    times.push((end - now) / kGroup);
    now = end;
  }
  return times.sort((a, b) => a - b)[times.length >> 1]!;
}
