// Draws what the halo bench measured (`--json`), and what `./dev bench group-losses` printed, in
// the form of halo-lossy-networks' figures and tables:
//
//   halo-time.svg       table I: milliseconds a token by loss, over each kind of line
//   halo-speedup.svg    figure 8: how many times as fast datagrams are as TCP
//   halo-bounds.svg     table II: how much worse perplexity is by which groups are lost
//   halo-accuracy.svg   table V: the same by loss, of groups that somebody can choose
//   halo-regimes.svg    ours: milliseconds a token by delay, for each way of dividing a model
//
// A figure without anything to show is not drawn.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

import { barFigure } from "../lib/bars.mjs";
import { median } from "../lib/statistics.mjs";

const kNames = {
  tcp: "TCP",
  udp: "groups in datagrams",
  lossy: "--lossy",
  layers: "whole layers",
  auto: "auto",
  experts: "experts",
  "experts-f16": "experts, f16 rows",
  dllama: "distributed-llama",
};

const unique = (values) => [...new Set(values)];
const ascending = (values) => unique(values).sort((a, b) => a - b);

// The rows of a file: JSON lines of the halo bench, and the table of group-losses, whose file is
// named for its model.
export function rowsOf(text, file) {
  const model = basename(file).replace(/\.[^.]*$/, "");
  const cells = [];
  const losses = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("{")) cells.push(JSON.parse(line));
    const row = /^\| ([\d.]+)% \| ([a-z ]+) \| [\d.]+ \| (-?[\d.]+)% \| [\d.]+% \|$/.exec(line);
    if (row) losses.push({ model, lost: Number(row[1]), which: row[2], worse: Number(row[3]) });
  }
  return { cells, losses };
}

const deviceCount = ({ helpers }) => `${helpers + 1} devices`;
const shapeOf = ({ label, helpers }) => `${label}, ${deviceCount({ helpers })}`;
const isShared = ({ helpers }) => helpers > 0;

// The median of the cells that are alike, which several runs may have measured.
function msOf(cells) {
  return cells.length === 0 ? null : median(cells.map(({ ms }) => ms));
}

function panelsBy(cells, titleOf, groupsOf, groupOf) {
  return unique(cells.map(titleOf)).map((title) => {
    const own = cells.filter((cell) => titleOf(cell) === title);
    const groups = groupsOf(own);
    const bars = {};
    for (const kind of Object.keys(kNames)) {
      const ofKind = own.filter((cell) => cell.kind === kind);
      if (ofKind.length === 0) continue;
      bars[kNames[kind]] = groups.map((group) =>
        msOf(ofKind.filter((cell) => groupOf(cell) === group)));
    }
    return { title, unit: "ms", groups, bars };
  });
}

const conditions = ({ delay_ms: delay, mbit }) => `${delay} ms, ${mbit} Mbit/s`;

function timePanels(cells) {
  const panels = panelsBy(cells.filter(isShared), (cell) => `${shapeOf(cell)}, ${conditions(cell)}`,
    (own) => ascending(own.map(({ loss }) => loss)), ({ loss }) => loss);
  const lossy = panels.filter(({ groups }) => groups.length > 1);
  return lossy.map((panel) => ({ ...panel, groups: panel.groups.map((loss) => `${loss}% lost`) }));
}

// Of the shapes that ran over both kinds of line, at each loss.
function speedupPanels(cells) {
  const both = cells.filter(isShared).filter(({ kind }) => kind === "tcp" || kind === "udp");
  const losses = ascending(both.map(({ loss }) => loss));
  const bars = {};
  for (const shape of unique(both.map(shapeOf))) {
    const of = (kind, loss) => msOf(both.filter((cell) =>
      shapeOf(cell) === shape && cell.kind === kind && cell.loss === loss));
    const ratios = losses.map((loss) => {
      const [tcp, udp] = [of("tcp", loss), of("udp", loss)];
      return tcp === null || udp === null ? null : tcp / udp;
    });
    if (ratios.some((ratio) => ratio !== null)) bars[shape] = ratios;
  }
  if (Object.keys(bars).length === 0) return [];
  const groups = losses.map((loss) => `${loss}% lost`);
  return [{ title: "TCP / datagrams", unit: "times", groups, bars }];
}

// A panel a model, of the rows that `isShown(row, its model's)` lets in.
function accuracyPanels(losses, isShown) {
  const panels = unique(losses.map(({ model }) => model)).map((model) => {
    const all = losses.filter((row) => row.model === model);
    const own = all.filter((row) => isShown(row, all));
    const shares = ascending(own.map(({ lost }) => lost));
    const bars = {};
    for (const which of unique(own.map((row) => row.which))) {
      bars[which] = shares.map((lost) =>
        own.find((row) => row.lost === lost && row.which === which)?.worse ?? null);
    }
    const groups = shares.map((lost) => `${lost}% lost`);
    return { title: `${model}: perplexity worse by`, unit: "in %", groups, bars };
  });
  return panels.filter(({ groups }) => groups.length > 0);
}

const sharesOf = (which, losses) =>
  unique(losses.filter((row) => row.which === which).map(({ lost }) => lost));
// Largest and smallest outputs of a row, which nobody can know, are measured at one loss. Beside
// them the others are too small to be seen, so that these have a figure of their own.
function isOfBounds({ lost }, losses) {
  return losses.some(({ which, lost: at }) => at === lost && sharesOf(which, losses).length === 1);
}
const isAtEachLoss = ({ which }, losses) => sharesOf(which, losses).length > 1;

// Where several delays were measured.
function regimePanels(cells) {
  const kinds = ["layers", "udp", "auto", "experts", "experts-f16"];
  const own = cells.filter(({ kind, loss }) => kinds.includes(kind) && loss === 0).filter(isShared);
  const panels = panelsBy(own, (cell) => `${shapeOf(cell)}, ${cell.mbit} Mbit/s, by delay`,
    (some) => ascending(some.map(({ delay_ms: delay }) => delay)), ({ delay_ms: delay }) => delay);
  return panels.filter(({ groups }) => groups.length > 1)
    .map((panel) => ({ ...panel, groups: panel.groups.map((delay) => `${delay} ms`) }));
}

// The figures by their names, as SVG.
export function figuresOf({ cells, losses }) {
  const panels = {
    "halo-time": timePanels(cells),
    "halo-speedup": speedupPanels(cells),
    "halo-bounds": accuracyPanels(losses, isOfBounds),
    "halo-accuracy": accuracyPanels(losses, isAtEachLoss),
    "halo-regimes": regimePanels(cells),
  };
  const drawn = Object.entries(panels).filter(([, each]) => each.length > 0);
  return Object.fromEntries(drawn.map(([name, each]) => [name, barFigure(each)]));
}

export function drawFigures(files, folder) {
  const all = files.map((file) => rowsOf(readFileSync(file, "utf8"), file));
  const figures = figuresOf({
    cells: all.flatMap(({ cells }) => cells),
    losses: all.flatMap(({ losses }) => losses),
  });
  if (Object.keys(figures).length === 0) {
    throw new Error(`${files.join(", ")}: no line of 'halo --json' or 'group-losses' is in there`);
  }
  mkdirSync(folder, { recursive: true });
  for (const [name, svg] of Object.entries(figures)) {
    const path = join(folder, `${name}.svg`);
    writeFileSync(path, svg);
    console.log(path);
  }
}
