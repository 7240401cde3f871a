// Whether the browser or the device put this tab to sleep while it helped. Nothing can be done
// then; it is told afterwards.
import { signal } from "@preact/signals";
import { asleepMs } from "@weft/ui";

const kLookMs = 5000;

// The last sleep: how long, and until when. null: none since helping began.
export const suspension = signal<{ durationMs: number; until: Date } | null>(null);

let isWatching = false;
let frozenAtMs = 0;
let lastMs = 0;

export function watchSleep(isHelping: boolean): void {
  isWatching = isHelping;
  lastMs = Date.now();
}

function note(durationMs: number): void {
  if (isWatching && durationMs > 0) suspension.value = { durationMs, until: new Date() };
}

// Chromium says so; in other browsers, and where the whole device slept, time has passed.
addEventListener("freeze", () => {
  frozenAtMs = Date.now();
}, { capture: true });
addEventListener("resume", () => {
  if (frozenAtMs > 0) note(Date.now() - frozenAtMs);
  frozenAtMs = 0;
  lastMs = Date.now();
}, { capture: true });
setInterval(() => {
  const nowMs = Date.now();
  note(asleepMs(lastMs, nowMs));
  lastMs = nowMs;
}, kLookMs);
