// The tables of the WebGPU benchmark, from its figures.
import { bytesPerToken, kvBytesPerPosition, shapeOf } from "./shapes.mjs";

function print(head, rows) {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column].length)));
  for (const row of all) {
    console.log(row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd());
  }
}

const kEnvironments = { "node-ours": ["node-ort"], "chromium-ours": ["chromium-ort", "wllama"] };

// Our rate over that of the best peer in the same environment.
function ratio(rates, ours) {
  const peers = kEnvironments[ours].map((part) => rates[part]).filter(Boolean);
  if (!rates[ours] || peers.length === 0) return "-";
  return (rates[ours] / Math.max(...peers)).toFixed(2);
}

// Of the measured read bandwidth, in percent: weights, keys and values that a token reads.
function share(figures, part, size, context, tokensPerS) {
  const read = figures.find((figure) => figure.part === part && figure.readGBps);
  if (!read || context === undefined || !tokensPerS) return "-";
  const shape = shapeOf(size);
  const bytes = bytesPerToken(shape) + context * kvBytesPerPosition(shape);
  return `${((bytes * tokensPerS) / read.readGBps / 1e7).toFixed(1)}%`;
}

function comparisonRows(figures, parts) {
  const rates = new Map();
  for (const { size, what, count, context, part, tokensPerS } of figures) {
    if (tokensPerS === undefined) continue;
    const key = JSON.stringify([size, what, count ?? null, context ?? null]);
    rates.set(key, { ...rates.get(key), [part]: tokensPerS });
  }
  return [...rates].map(([key, byPart]) => {
    const [size, what, count, context] = JSON.parse(key);
    const ours = Object.keys(kEnvironments);
    return [
      size,
      `${what} ${count ?? `at ${context}`}`,
      ...parts.map((part) => (byPart[part] ? String(byPart[part]) : "-")),
      ...ours.map((part) => ratio(byPart, part)),
      ...ours.map((part) => share(figures, part, size, context ?? undefined, byPart[part])),
    ];
  });
}

function extraRows(figures) {
  const rows = [];
  const rate = (ms) => (1000 / ms).toPrecision(4);
  for (const { size, part, what, modes, ...rest } of figures) {
    if (what === "ablation") {
      const cells = modes.map(({ mode, ms }) => `${mode}: ${rate(ms)}`);
      rows.push([size, part, `${rest.dispatches} dispatches; tokens/s ${cells.join(", ")}`]);
    }
    if (what === "stage") {
      const text =
        `${rest.layers} layers, ms a step: ${rest.waitedMs.toFixed(3)}, ` +
        `poked ${rest.pokedMs.toFixed(3)} (${rest.pokesPerStep.toFixed(1)} pokes)`;
      rows.push([size, part, text]);
    }
    if (what === "profile") {
      const listed = (kernels) =>
        kernels.map(({ kernel, us }) => `${kernel} ${us.toFixed(1)}`).join(", ");
      rows.push([size, part, `us: ${listed(rest.kernels)}`]);
      rows.push([size, part, `prompt, us: ${listed(rest.prompt)}`]);
    }
  }
  return rows;
}

export function printTables(figures, parts) {
  console.log("");
  for (const row of extraRows(figures)) console.log(row.join("  "));
  for (const { size, part, failed } of figures) {
    if (failed) console.log(`${size}  ${part}  failed: ${failed}`);
  }
  for (const { size, part, kernels } of figures) {
    if (typeof kernels === "string") console.log(`${size}  ${part}  ${kernels}`);
  }
  const reads = figures.filter(({ readGBps }) => readGBps);
  for (const { part, device, readGBps } of reads) {
    console.log(`${part}  ${device}  ${readGBps} GB/s`);
  }
  console.log("\ntokens/s; ours over the best peer, share of read bandwidth: in Node, in Chromium");
  const head = ["size", "what", ...parts, "ratio N", "ratio C", "share N", "share C"];
  print(head, comparisonRows(figures, parts));
}
