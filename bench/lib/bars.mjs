// Bar charts in panels side by side, as SVG:
//
//   barFigure([{ title: "8B, 4 devices", unit: "ms", groups: ["0%", "5%"],
//                bars: { TCP: [63.8, 403], datagrams: [62.5, 71.3] } }])
//
// A panel has a group of bars for each of its groups, one of each name, with its value on top. A
// value that is missing (null) leaves its place empty. Names have the same colour in all panels.
import { drawing, fixed, textAt } from "./svg.mjs";

const kColours = ["#5f8fd9", "#e8a33d", "#6bb07b", "#d95f5f", "#7a3fb0", "#888888"];
const kPanel = { height: 190, left: 48, top: 34, bottom: 30, gap: 20 };
const kBarWidth = 30;
const kLetterWidth = 6.5; // of a title
const kColumns = 2; // panels side by side
const kHeadroom = 1.12; // so that numbers fit above bars

function written(value) {
  if (value >= 100) return `${Math.round(value)}`;
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

// The steps of a scale up to so much: 1, 2 or 5 times a power of ten, four of them or a few more.
function stepOf(top) {
  const power = 10 ** Math.floor(Math.log10(top / 4));
  return [5, 2, 1].map((digit) => digit * power).find((step) => 4 * step <= top);
}

const titleOf = ({ title, unit }) => `${title}, ${unit}`;
// Of its bars, or of its title.
const widthOf = (panel, names) => Math.max(
  panel.groups.length * (names.length * kBarWidth + 16), kLetterWidth * titleOf(panel).length);

function panelParts(panel, names, x0, y0) {
  const { groups, bars } = panel;
  const width = widthOf(panel, names);
  const { height } = kPanel;
  const all = names.flatMap((name) => bars[name] ?? []).filter((value) => value !== null);
  const top = kHeadroom * Math.max(...all);
  const heightOf = (value) => (value / top) * height;
  const parts = [
    textAt(x0, y0 - 10, titleOf(panel), 'font-weight="bold"'),
    `<rect x="${x0}" y="${y0}" width="${width}" height="${height}" class="frame"/>`,
  ];
  const step = stepOf(top);
  for (let i = 0; i * step <= top; ++i) {
    parts.push(textAt(x0 - 6, y0 + height - heightOf(i * step) + 4,
      `${Number((i * step).toPrecision(3))}`, 'text-anchor="end"'));
  }
  groups.forEach((group, at) => {
    const left = x0 + 8 + at * (names.length * kBarWidth + 16);
    const middle = left + (names.length * kBarWidth) / 2;
    parts.push(textAt(middle, y0 + height + 15, group, 'text-anchor="middle"'));
    names.forEach((name, i) => {
      const value = bars[name]?.[at] ?? null;
      if (value === null) return;
      const x = left + i * kBarWidth;
      const y = y0 + height - heightOf(value);
      parts.push(
        `<rect x="${fixed(x)}" y="${fixed(y)}" width="${kBarWidth - 2}" ` +
          `height="${fixed(heightOf(value))}" fill="${kColours[i % kColours.length]}"/>`,
        textAt(x + kBarWidth / 2 - 1, y - 3, written(value),
          'text-anchor="middle" font-size="9"'));
    });
  });
  return parts;
}

// REQUIRES: at least one panel, and at least one value in each.
export function barFigure(panels) {
  const names = [...new Set(panels.flatMap(({ bars }) => Object.keys(bars)))];
  const { height, left, top, bottom, gap } = kPanel;
  const rows = [];
  for (let i = 0; i < panels.length; i += kColumns) rows.push(panels.slice(i, i + kColumns));
  const parts = [];
  let sheetWidth = 0;
  let y = top;
  for (const row of rows) {
    let x = left;
    for (const panel of row) {
      parts.push(...panelParts(panel, names, x, y));
      x += widthOf(panel, names) + left + gap;
    }
    sheetWidth = Math.max(sheetWidth, x - left);
    y += height + top + bottom;
  }
  const legendWidths = names.map((name) => 28 + 7 * name.length);
  const legendOf = (i) => left + legendWidths.slice(0, i).reduce((sum, each) => sum + each, 0);
  names.forEach((name, i) => {
    parts.push(
      `<rect x="${legendOf(i)}" y="${y - top + 4}" width="12" height="10" ` +
        `fill="${kColours[i % kColours.length]}"/>`,
      textAt(legendOf(i) + 16, y - top + 13, name));
  });
  const width = Math.max(sheetWidth, legendOf(names.length));
  return drawing(width, y - top + 24, parts, ".frame{fill:none;stroke:#888}");
}
