// How many threads onnxruntime-web computes with. It is measured: browsers round the number of
// cores that they tell, and do not say which cores are slow ones or busy.
import type { TuneStore } from "@weft/engine/tune/store.ts";

// More cost memory and heat, and share the bandwidth that few use up.
const kMostThreads = 8;
// Twice as many threads are worth their heat from here on; less may be chance.
const kLeastGain = 1.25;

export interface ThreadDevice {
  readonly cores: number; // as the browser tells
  readonly userAgent: string; // another version of a browser is measured anew
  readonly timeRound: (threads: number) => Promise<number>; // ms
  readonly nowMs: number; // since 1970
}

// What was found on a busy day does not hold for long.
const kKeptMs = 24 * 3600 * 1000;

// Doubles the number for as long as that gains: 1, 2, 4, 8 threads, no more than there are cores.
// A gain counts where the fewer threads are slower once more: something may have been in the way.
export async function fastestThreads({ cores, timeRound }: ThreadDevice): Promise<number> {
  const most = Math.min(cores, kMostThreads);
  let threads = 1;
  if (most < 2) return threads;
  for (let bestMs = await timeRound(1); 2 * threads <= most; threads *= 2) {
    const ms = await timeRound(2 * threads);
    if (ms * kLeastGain > bestMs || ms * kLeastGain > (await timeRound(threads))) break;
    bestMs = ms;
  }
  return threads;
}

// The number in "4 1795651200000", if it was measured within a day.
function keptThreads(text: string | null | undefined, nowMs: number): number | null {
  const [, threads, measuredMs] = /^([1-9]) (\d{1,16})$/.exec(text ?? "") ?? [];
  const ageMs = nowMs - Number(measuredMs);
  return ageMs >= 0 && ageMs < kKeptMs && Number(threads) <= kMostThreads ? Number(threads) : null;
}

// What was measured before, in this browser on this device, or now. A store that fails is none.
export async function chooseThreads(
  device: ThreadDevice,
  store: TuneStore | null,
): Promise<number> {
  const key = `threads, ${device.cores} cores, ${device.userAgent}`;
  const kept = keptThreads(await store?.get(key).catch(() => null), device.nowMs);
  if (kept !== null) return kept;
  const threads = await fastestThreads(device);
  await store?.set(key, `${threads} ${device.nowMs}`).catch(() => undefined);
  return threads;
}
