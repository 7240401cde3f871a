// What a helper may take of a device: a share of the time, and data of a day. And what is said when
// the browser put the tab to sleep, or the server does without the device.

// Of the time; less makes the device slower, and plans count with that.
export const kShares = [1, 0.5, 0.25, 0.1] as const;
// Bytes of a day; null: no limit.
export const kDataLimits = [null, 0.5e9, 1e9, 2e9, 5e9, 10e9, 50e9] as const;

export function shareText(share: number): string {
  return share >= 1 ? "All the time" : `At most ${Math.round(100 * share)}% of the time`;
}

export function readHelpShare(saved: unknown): number {
  return kShares.find((share) => share === saved) ?? 1;
}

export function readDataLimit(saved: unknown): number | null {
  return kDataLimits.find((limit) => limit === saved) ?? null;
}

// Bytes, both ways, of one day of this device.
export interface DataUse {
  day: string; // "2026-11-27"
  bytes: number;
}

export function dayOf(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

// What was saved of this day; another day's is over.
export function readDataUse(saved: unknown, day: string): DataUse {
  if (typeof saved === "object" && saved !== null && "day" in saved && "bytes" in saved) {
    const { bytes } = saved;
    if (saved.day === day && typeof bytes === "number" && bytes >= 0) return { day, bytes };
  }
  return { day, bytes: 0 };
}

export function addUse(use: DataUse, byteCount: number, day: string): DataUse {
  return { day, bytes: (use.day === day ? use.bytes : 0) + byteCount };
}

// Why no more data is moved today; "" when some is left.
export function dataReason(limitBytes: number | null, use: DataUse, formatted: string): string {
  if (limitBytes === null || use.bytes < limitBytes) return "";
  return `The data limit of ${formatted} a day is used up. Raise it, or wait until tomorrow.`;
}

// What GET /worker/state says of a device, of those with its name the first that has a problem.
export function readOwnProblem(json: unknown): string {
  if (typeof json !== "object" || json === null || !("devices" in json)) return "";
  const devices = Array.isArray(json.devices) ? (json.devices as unknown[]) : [];
  for (const device of devices) {
    if (typeof device !== "object" || device === null || !("problem" in device)) continue;
    if (typeof device.problem === "string" && device.problem !== "") return device.problem;
  }
  return "";
}

// Timers of a hidden tab come once a minute; a tab that sleeps has none.
const kFewestAsleepMs = 150_000;

// How long a tab slept between two looks of a timer; 0: it was awake.
export function asleepMs(lastMs: number, nowMs: number): number {
  return nowMs - lastMs >= kFewestAsleepMs ? nowMs - lastMs : 0;
}
