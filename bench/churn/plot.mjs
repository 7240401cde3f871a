// Draws what `--json` of the churn bench wrote, as figures 6.6 and 6.7 of
// web-distributed-inference-architecture show theirs, and prints its tables 6.8 to 6.12 of our
// figures. SVG is written as text.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { drawing, fixed, textAt } from "../lib/svg.mjs";
import { ewma, kStates, rollingShares, spansOf, timeInStates, transitionsOf } from "./states.mjs";

const kSmoothSeconds = 10;
const kRollingSeconds = 120; // the paper's window; a fifth of a cell that is shorter than 600 s
const kPanel = { width: 420, height: 180, left: 52, top: 34, gap: 28, bottom: 34 };
const kStateColours = { down: "#d95f5f", preparing: "#e8a33d", repairing: "#5f8fd9",
  up: "#6bb07b" };
const kFailureColours = { kill: "#000000", stop: "#7a3fb0", silent: "#7a3fb0", cut: "#c2185b" };

// A frame with its scales: {xOf, yOf, parts}.
function frame(column, row, title, seconds, top, unit) {
  const { width, height, left, gap, bottom } = kPanel;
  const x0 = left + column * (width + left + gap);
  const y0 = kPanel.top + row * (height + kPanel.top + bottom);
  const xOf = (second) => x0 + (second / seconds) * width;
  const yOf = (value) => y0 + height - (value / top) * height;
  const parts = [textAt(x0, y0 - 8, title, 'font-weight="bold"'),
    `<rect x="${x0}" y="${y0}" width="${width}" height="${height}" class="frame"/>`];
  for (let i = 0; i <= 4; ++i) {
    const value = (top * i) / 4;
    parts.push(textAt(x0 - 6, yOf(value) + 4, `${+value.toPrecision(3)}`, 'text-anchor="end"'));
    const second = (seconds * i) / 4;
    parts.push(textAt(xOf(second), y0 + height + 15, `${Math.round(second)}`,
      'text-anchor="middle"'));
  }
  parts.push(textAt(x0 + width, y0 - 8, unit, 'text-anchor="end"'));
  return { xOf, yOf, parts, y0, y1: y0 + height };
}

function document(columns, rows, legend, parts) {
  const { width, height, left, top, gap, bottom } = kPanel;
  const w = columns * (width + left + gap);
  const h = rows * (height + top + bottom) + 24;
  const entries = Object.entries(legend).map(([name, colour], i) =>
    `<rect x="${left + i * 110}" y="${h - 16}" width="12" height="10" fill="${colour}"/>` +
    textAt(left + 16 + i * 110, h - 7, name));
  return drawing(w, h, [...parts, ...entries], ".frame{fill:none;stroke:#888}");
}

const titleOf = ({ model, needed, workers, prompt_tokens: prompt, answer_tokens: answer }) =>
  `${model}, ${needed} of ${workers} needed, ${prompt} + ${answer} tokens`;

function spansIn({ series, seconds }) {
  return spansOf(series.states, seconds);
}

// Tokens a second, smoothed, over the swarm's states; a mark for each failure.
function ratePanel(report, column, row) {
  const rates = ewma(report.series.tokens_each_second, kSmoothSeconds);
  const { seconds } = report;
  const { xOf, yOf, parts, y0, y1 } =
    frame(column, row, titleOf(report), seconds, Math.max(1, ...rates) * 1.1, "tokens/s");
  for (const { state, from, to } of spansIn(report)) {
    const width = Math.max(xOf(to) - xOf(from), 0.2);
    parts.push(`<rect x="${xOf(from).toFixed(2)}" y="${y0}" width="${width.toFixed(2)}" ` +
      `height="${y1 - y0}" fill="${kStateColours[state]}" opacity="0.3"/>`);
  }
  for (const { at, kind, layers } of report.series.failures) {
    const length = layers ? 12 : 5;
    parts.push(`<path d="M${fixed(xOf(at))} ${y1}v-${length}" stroke="${kFailureColours[kind]}"/>`);
  }
  const line = rates.map((rate, i) => `${fixed(xOf(i + 0.5))},${fixed(yOf(rate))}`).join(" ");
  parts.push(`<polyline points="${line}" fill="none" stroke="#222" stroke-width="1.4"/>`);
  return parts;
}

// Shares of the time in each state, stacked, over a rolling window.
function sharesPanel(report, column, row) {
  const { seconds } = report;
  const windowSeconds = seconds >= 600 ? kRollingSeconds : seconds / 5;
  const shares = rollingShares(spansIn(report), Math.floor(seconds), windowSeconds);
  const { xOf, yOf, parts } = frame(column, row, titleOf(report), seconds, 1, "share of time");
  let floor = shares.map(() => 0);
  for (const state of [...kStates].reverse()) {
    const ceiling = shares.map((share, i) => floor[i] + share[state]);
    const points = [
      ...ceiling.map((value, i) => [i + 1, value]),
      ...floor.map((value, i) => [i + 1, value]).reverse(),
    ].map(([second, value]) => `${fixed(xOf(second))},${fixed(yOf(value))}`);
    parts.push(`<polygon points="${points.join(" ")}" fill="${kStateColours[state]}"/>`);
    floor = ceiling;
  }
  return parts;
}

// One column for each load of a model, one row for each swarm and its failures.
function arranged(reports) {
  const columnOf = ({ model, prompt_tokens: prompt, answer_tokens: answer }) =>
    `${model} ${prompt} ${answer}`;
  const columns = [...new Set(reports.map(columnOf))];
  const rowOf = ({ needed, workers, mode }) => `${needed} ${workers} ${mode}`;
  const rows = [...new Set(reports.map(rowOf))];
  const places = reports.map((report) =>
    ({ report, column: columns.indexOf(columnOf(report)), row: rows.indexOf(rowOf(report)) }));
  return { places, columns: columns.length, rows: rows.length };
}

export function rateFigure(reports) {
  const { places, columns, rows } = arranged(reports);
  const parts = places.flatMap(({ report, column, row }) => ratePanel(report, column, row));
  const { silent, ...failures } = kFailureColours;
  return document(columns, rows, { ...kStateColours, ...failures }, parts);
}

export function sharesFigure(reports) {
  const { places, columns, rows } = arranged(reports);
  const parts = places.flatMap(({ report, column, row }) => sharesPanel(report, column, row));
  return document(columns, rows, kStateColours, parts);
}

function printTables(reports) {
  console.table(reports.map((report) => {
    const times = timeInStates(spansIn(report), 0, report.seconds);
    const seconds = Object.fromEntries(kStates.map((state) => [state, +times[state].toFixed(2)]));
    return { cell: report.cell, ...seconds,
      "up %": +((times.up / report.seconds) * 100).toFixed(2),
      "of possible %": +(report.of_possible * 100).toFixed(2), failures: report.failures_met };
  }));
  for (const report of reports) {
    console.log(`transitions, ${report.cell}`);
    console.table(transitionsOf(spansIn(report)).map(({ from, to, seconds, count }) => ({
      from, to, "time s": +seconds.toFixed(2), count, "mean s": +(seconds / count).toFixed(2) })));
  }
}

// Of the cells with a ramp of failures where there are such, else of all, model by model.
export function drawFigures(file, folder) {
  const all = readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const ramps = all.filter(({ mode }) => mode === "ramp");
  const reports = ramps.length > 0 ? ramps : all;
  mkdirSync(folder, { recursive: true });
  for (const model of new Set(reports.map((report) => report.model))) {
    const some = reports.filter((report) => report.model === model);
    for (const [name, draw] of [["rate", rateFigure], ["states", sharesFigure]]) {
      const path = join(folder, `churn-${model}-${name}.svg`);
      writeFileSync(path, draw(some));
      console.log(path);
    }
  }
  printTables(reports);
}
