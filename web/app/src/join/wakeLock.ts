// Keeps the screen on while the device helps and the page is looked at: phones stop pages of a dark
// screen. Browsers take the lock away when the page is hidden, so it is asked for again.

let isWanted = false;
let held: WakeLockSentinel | null = null;

export function keepAwake(wanted: boolean): void {
  if (wanted === isWanted) return;
  isWanted = wanted;
  if (wanted) void ask();
  else release();
}

async function ask(): Promise<void> {
  // Undefined on plain http and in older browsers, whatever the types say.
  const wakeLock = navigator.wakeLock as WakeLock | undefined;
  if (!wakeLock || held || document.hidden) return;
  try {
    const lock = await wakeLock.request("screen");
    lock.addEventListener("release", () => {
      if (held === lock) held = null;
    });
    held = lock;
    if (!isWanted) release();
  } catch {
    // Low battery, say: helping works without it.
  }
}

function release(): void {
  held?.release().catch(() => undefined);
  held = null;
}

document.addEventListener("visibilitychange", () => {
  if (isWanted && !document.hidden) void ask();
});
