// What devices hold, in words and as pieces of a bar. Layer 0 is the embedding, the last one the
// output head, those between are the transformer layers that people count from 1.
import type { SwarmPicture } from "./picture.ts";

// "the embedding and layers 1–3", "layers 4–8 and the head", "nothing".
export function layersText(firstLayer: number, endLayer: number, layerCount: number): string {
  if (firstLayer < 0 || endLayer <= firstLayer) return "nothing";
  const hasEmbedding = firstLayer === 0;
  const hasHead = endLayer >= layerCount && layerCount > 1;
  const first = Math.max(1, firstLayer);
  const last = Math.min(endLayer, layerCount - 1) - 1;
  if (hasEmbedding && hasHead) return "the whole model";
  const parts: string[] = [];
  if (hasEmbedding) parts.push("the embedding");
  if (last > first) parts.push(`layers ${first}–${last}`);
  else if (last === first) parts.push(`layer ${first}`);
  if (hasHead) parts.push("the head");
  return parts.join(" and ");
}

export interface Range {
  first: number;
  end: number;
}

// Sorted numbers as ranges: [0, 1, 2, 5] -> 0-3, 5-6.
export function rangesOf(layers: readonly number[]): Range[] {
  const ranges: Range[] = [];
  for (const layer of [...new Set(layers)].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && last.end === layer) last.end = layer + 1;
    else ranges.push({ first: layer, end: layer + 1 });
  }
  return ranges;
}

// How many devices hold each layer: in their cache, or loaded for the plan. A layer that no device
// has room for is on none, whatever is in caches.
export function holderCounts(picture: SwarmPicture): number[] {
  const counts = new Array<number>(picture.layerCount).fill(0);
  for (const device of picture.devices) {
    const held = new Set(device.cachedLayers);
    for (let layer = Math.max(0, device.firstLayer); layer < device.endLayer; layer += 1) {
      held.add(layer);
    }
    for (const layer of held) if (layer < counts.length) counts[layer] = (counts[layer] ?? 0) + 1;
  }
  return counts.map((count, layer) => (picture.coveredLayers[layer] === false ? 0 : count));
}

// The sentence under the coverage bar: where the swarm would break first.
export function weakestText(picture: SwarmPicture): string {
  const counts = holderCounts(picture);
  if (counts.length === 0) return "";
  const fewest = Math.min(...counts);
  const weakest = counts.flatMap((count, layer) => (count === fewest ? [layer] : []));
  const isAll = weakest.length === counts.length;
  if (fewest === 0 && isAll) return "No device has any layer yet.";
  const where = joinWords(rangesOf(weakest).map((range) =>
    layersText(range.first, range.end, picture.layerCount)));
  if (fewest === 0) {
    const hasRoom = weakest.every((layer) => picture.coveredLayers[layer] !== false);
    return hasRoom ? `No device has ${where} yet.` : `No device has room for ${where}.`;
  }
  if (picture.devices.length === 1) return "One device has every layer.";
  if (isAll && fewest === 1) {
    return "Every layer is on one device only: when one leaves, another has to load its part.";
  }
  if (isAll) return `Every layer is on ${fewest} devices.`;
  const verb = weakest.length > 1 ? "are" : "is";
  return fewest === 1
    ? `${capital(where)} ${verb} on one device only: if it leaves, another has to load that part.`
    : `${capital(where)} ${verb} on ${fewest} devices, the others on more.`;
}

function capital(words: string): string {
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

function joinWords(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
