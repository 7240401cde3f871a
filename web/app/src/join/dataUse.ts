// The data that helping took today, over reloads, and whether that was all that it may take.
import { computed, signal } from "@preact/signals";
import { addUse, dayOf, readDataUse } from "@weft/ui";
import type { WorkerStatus } from "@weft/worker";
import { loadJson, save } from "../browser/storage.ts";

const kKey = "weft.helpData";
const kSaveMs = 5000;
const kDayCheckMs = 60_000;

const today = signal(dayOf(new Date()));
const counted = signal(readDataUse(loadJson(kKey), today.peek()));
export const dataUse = computed(() => addUse(counted.value, 0, today.value));

let lastTraffic = 0;
let saveTimer: ReturnType<typeof setTimeout> | undefined;

// A worker that was started again counts from zero.
export function countTraffic({ trafficBytes = 0 }: Partial<WorkerStatus>): void {
  const grown = trafficBytes >= lastTraffic ? trafficBytes - lastTraffic : trafficBytes;
  lastTraffic = trafficBytes;
  if (grown === 0) return;
  counted.value = addUse(counted.peek(), grown, today.peek());
  saveTimer ??= setTimeout(saveNow, kSaveMs);
}

function saveNow(): void {
  clearTimeout(saveTimer);
  saveTimer = undefined;
  save(kKey, JSON.stringify(counted.peek()));
}
addEventListener("pagehide", saveNow);

setInterval(() => {
  today.value = dayOf(new Date());
}, kDayCheckMs);
