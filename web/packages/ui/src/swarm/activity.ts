// Which devices compute now, and the recent speed of the swarm. A step takes milliseconds and
// pictures come five times a second: a device counts as computing while its steps go on, and for
// kHoldMs after the last sign, so that highlights do not flicker.
import { formatRate } from "../words/format.ts";
import type { SwarmPicture } from "./picture.ts";

const kHoldMs = 700;
const kHistoryLength = 60;
const kFewestPoints = 5;

export interface Activity {
  // Device id -> time of the last sign of computing and the tokens counted then.
  seen: ReadonlyMap<number, { atMs: number; tokensComputed: number }>;
  computing: ReadonlySet<number>;
  // Tokens per second of the whole swarm, oldest first, one value per picture.
  speeds: readonly number[];
}

export function idleActivity(): Activity {
  return { seen: new Map(), computing: new Set(), speeds: [] };
}

export function nextActivity(before: Activity, picture: SwarmPicture, nowMs: number): Activity {
  const seen = new Map<number, { atMs: number; tokensComputed: number }>();
  const computing = new Set<number>();
  for (const device of picture.devices) {
    const last = before.seen.get(device.id);
    const { tokensComputed } = device;
    const isBusy = device.computing || (last !== undefined && tokensComputed > last.tokensComputed);
    const atMs = isBusy ? nowMs : (last?.atMs ?? Number.NEGATIVE_INFINITY);
    seen.set(device.id, { atMs, tokensComputed });
    if (nowMs - atMs <= kHoldMs) computing.add(device.id);
  }
  const speeds = [...before.speeds, picture.tokensPerSecond].slice(-kHistoryLength);
  return { seen, computing, speeds };
}

// What the curve of the speeds shows, for those who do not see it; "" when it shows nothing.
export function speedsText(speeds: readonly number[]): string {
  if (sparkline(speeds) === "") return "";
  const rate = (speed: number): string => formatRate(speed, "tokens");
  return `Recent speed: at most ${rate(Math.max(...speeds))}, now ${rate(speeds.at(-1) ?? 0)}`;
}

// The speeds as the points of a polyline in a box of 100 x 24, newest at the right; "" without
// enough to show.
export function sparkline(speeds: readonly number[]): string {
  const top = Math.max(...speeds, 0);
  if (speeds.length < kFewestPoints || top <= 0) return "";
  const step = 100 / (kHistoryLength - 1);
  return speeds
    .map((speed, index) => {
      const x = 100 - (speeds.length - 1 - index) * step;
      return `${x.toFixed(1)},${(23 - (22 * speed) / top).toFixed(1)}`;
    })
    .join(" ");
}
