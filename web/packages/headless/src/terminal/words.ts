// A worker's status as a terminal shows it: what the page's card shows, in lines.
import { layersText } from "@weft/ui/swarm/layers.ts";
import {
  formatBytes,
  formatInteger,
  formatMemoryOf,
  formatMilliseconds,
  formatPercent,
  formatRate,
} from "@weft/ui/words/format.ts";
import type { WorkerStatus } from "@weft/worker/threads/messages.ts";
import { furtherWords, kPhaseWords } from "@weft/worker/threads/phaseWords.ts";

// What a server or a package wrote, without what would move a terminal's cursor or turn the
// direction of writing around (src/apps/terminal_text.h).
export function plainText(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    " ");
}

// "Ready. Computes as soon as somebody asks."
export function headline(status: WorkerStatus): string {
  const { phase, message, download } = status;
  const words = phase === "loading" ? message : furtherWords(status);
  const isComing = phase === "downloading" && download && download.totalBytes > 0;
  const rest = isComing
    ? `${formatBytes(download.doneBytes)} of ${formatBytes(download.totalBytes)} ` +
      `(${formatPercent(download.doneBytes, download.totalBytes)}).`
    : words;
  return plainText(`${kPhaseWords[phase]}.${rest === "" ? "" : ` ${rest}`}`);
}

function expertFigures({ expertsHeld, expertCalls }: WorkerStatus): [string, string][] {
  if (expertsHeld === 0 && expertCalls === 0) return [];
  return [["Experts held", formatInteger(expertsHeld)],
    ["Expert calls", formatInteger(expertCalls)]];
}

// What became of --run-here, where it was not done at once.
function wholeFigures({ wholeMessage }: WorkerStatus): [string, string][] {
  return wholeMessage === "" ? [] : [["Run it all here", wholeMessage]];
}

// Name and value of each figure.
export function figures(status: WorkerStatus, bytesPerS: number): [string, string][] {
  const { layers, layerCount, lastStepMs, engine, engineDetail } = status;
  const holds = layers
    ? layersText(layers[0], layers[1], layerCount || layers[1] + 1)
    : status.expertsHeld > 0 ? "experts only" : "none yet";
  const rows: [string, string][] = [
    ["Model", status.modelName || "–"],
    ["Holds", status.whole === "here" ? `${holds}, alone` : holds],
    ...wholeFigures(status),
    ...expertFigures(status),
    ["Speed", formatRate(status.rowsPerSecond, "rows")],
    ["Last step", lastStepMs > 0 ? formatMilliseconds(lastStepMs) : "–"],
    ["Rows computed", formatInteger(status.rowsComputed)],
    ["Memory used", formatMemoryOf(status.usedBytes, status.memoryBytes)],
    ["Kept on disk", formatBytes(status.cachedBytes)],
    ["Engine", engineDetail === "" ? engine || "–" : `${engine}: ${engineDetail}`],
  ];
  if (bytesPerS > 0) rows.splice(2, 0, ["Download", `${formatBytes(bytesPerS)}/s`]);
  return rows.map(([name, value]) => [name, plainText(value)]);
}
