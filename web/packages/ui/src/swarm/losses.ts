// What a swarm that may lose neuron groups (`weft serve --lossy`) says of it, in words.
import { formatCount, formatInteger } from "../words/format.ts";
import type { LossyHub, LossyLine } from "./picture.ts";

function percent(share: number): string {
  const value = 100 * share;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)}%`;
}

// Of the line from a device to the hub that adds its groups up.
export function lineText({ isReady, isBlocked, loss }: LossyLine): string {
  if (isBlocked) return "Datagrams do not get through: it answers over its connection.";
  if (!isReady) return "Tries whether datagrams get through.";
  return loss > 0 ? `Its line loses ${percent(loss)} of its datagrams.`
    : "Its line loses no datagrams.";
}

// What answers did without, and whether that was too much; "" before any token.
export function leftOutText({ groups, lost, share, falls }: LossyHub): string {
  if (groups === 0) return "";
  const all = `Left out so far: ${formatInteger(lost)} of ${formatCount(groups, "neuron group")}`;
  const lately = share > 0 ? `, lately ${percent(share)} of their weight.` : ".";
  if (falls === 0) return all + lately;
  return `${all}${lately} Too much for a while: ${formatCount(falls, "time")}.`;
}
