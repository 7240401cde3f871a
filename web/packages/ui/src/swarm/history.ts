// What the swarm did over the last hour and day, as GET /api/swarm/history gives it, and the
// sentences that say it to those who do not see the curves.
import { formatPercent, formatRate } from "../words/format.ts";

export interface HistoryLevel {
  stepS: number;
  // Of each step, oldest first; the last one is now. null: nobody looked.
  tokensPerSecond: (number | null)[];
  devices: (number | null)[];
  up: (number | null)[]; // share of the time, 0 to 1
}

export interface SwarmHistory {
  hour: HistoryLevel;
  day: HistoryLevel;
}

// More steps than any server sends: what a broken answer could make the page draw.
const kMostSteps = 2000;

// Gives null for what is no history.
export function readHistory(json: unknown): SwarmHistory | null {
  if (typeof json !== "object" || json === null || !("levels" in json)) return null;
  const levels = Array.isArray(json.levels) ? json.levels.map(readLevel) : [];
  const [hour, day] = levels;
  return hour && day ? { hour, day } : null;
}

function readLevel(value: unknown): HistoryLevel | null {
  if (typeof value !== "object" || value === null) return null;
  const level = value as Partial<Record<string, unknown>>;
  const stepS = level["step_s"];
  if (typeof stepS !== "number" || !(stepS > 0)) return null;
  const [tokensPerSecond, devices, up] = ["tokens_per_s", "devices", "up"]
    .map((key) => readNumbers(level[key]));
  if (!tokensPerSecond || !devices || !up) return null;
  const isEven = tokensPerSecond.length === devices.length && devices.length === up.length;
  return isEven ? { stepS, tokensPerSecond, devices, up } : null;
}

function readNumbers(value: unknown): (number | null)[] | null {
  if (!Array.isArray(value)) return null;
  return value.slice(-kMostSteps).map((item: unknown) =>
    typeof item === "number" && Number.isFinite(item) && item >= 0 ? item : null);
}

// When each step was, in minutes before now: -10, ..., 0.
export function minutesOf({ stepS, up }: HistoryLevel): number[] {
  return up.map((_, index) => ((index + 1 - up.length) * stepS) / 60);
}

// Lengths of the time axis in minutes, each with quarters that read well.
const kHourSpans = [8, 20, 40, 60];
const kDaySpans = [120, 240, 480, 960, 1440];

// How far back the curves reach: a server that has just begun shows no empty hour.
export function spanMinutes(level: HistoryLevel, isDay: boolean): number {
  const first = level.up.findIndex((share) => share !== null);
  const seen = first < 0 ? 0 : -(minutesOf(level)[first] ?? 0);
  const spans = isDay ? kDaySpans : kHourSpans;
  return spans.find((span) => span >= seen) ?? spans.at(-1)!;
}

function known(values: readonly (number | null)[]): number[] {
  return values.filter((value) => value !== null);
}

export function tokensText({ tokensPerSecond }: HistoryLevel): string {
  const rates = known(tokensPerSecond);
  if (rates.length === 0) return "nothing yet";
  const most = Math.max(...rates);
  return most > 0 ? `at most ${formatRate(most, "tokens")}` : "no answer was computed";
}

export function devicesText({ devices }: HistoryLevel): string {
  const counts = known(devices).map((count) => Math.round(count));
  if (counts.length === 0) return "nothing yet";
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  return least === most ? `${most} all the time` : `from ${least} to ${most}`;
}

export function availabilityText({ up }: HistoryLevel): string {
  const shares = known(up);
  if (shares.length === 0) return "nothing yet";
  const sum = shares.reduce((total, share) => total + share, 0);
  return `could answer ${formatPercent(sum, shares.length)} of the time`;
}
