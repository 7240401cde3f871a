// What a device that holds experts did for others, in words.
import { formatCount, formatInteger, formatMilliseconds } from "../words/format.ts";
import type { HolderCounts } from "./picture.ts";

// "1 200 times: 1 180 won, 15 lost, 3 timeouts". Won is what it answered before anybody else.
export function callsText(holder: HolderCounts): string {
  const { calls, wins, losses, timeouts, refused } = holder;
  const parts = [`${formatInteger(wins)} won`, `${formatInteger(losses)} lost`];
  if (timeouts > 0) parts.push(formatCount(timeouts, "timeout"));
  if (refused > 0) parts.push(`${formatInteger(refused)} refused`);
  return `${formatCount(calls, "time")}: ${parts.join(", ")}`;
}

export function hedgesText({ hedges, wonHedges, lostHedges }: HolderCounts): string {
  if (hedges === 0) return "none";
  return `${formatInteger(hedges)}: ${formatInteger(wonHedges)} won, `
    + `${formatInteger(lostHedges)} lost`;
}

export function answerTimesText({ p50Ms, slowestMs }: HolderCounts): string {
  if (p50Ms <= 0) return "–";
  return `${formatMilliseconds(p50Ms)}, at most ${formatMilliseconds(slowestMs)}`;
}
