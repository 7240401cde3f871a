import assert from "node:assert/strict";
import { test } from "node:test";

import { figuresOf, rowsOf } from "./figures.mjs";

const cell = (kind, loss, ms, more = {}) => JSON.stringify({
  label: "8B", helpers: 3, kind, loss, ms, delay_ms: 1, mbit: 1000, ...more });

const kTable = `| lost | whose groups | perplexity | worse by | same best token |
|---:|---|---:|---:|---:|
| 0 | | 1.6044 | | 100% |
| 10% | high norm | 2.5372 | 58.14% | 91.00% |
| 5% | random | 1.6291 | 1.54% | 98.83% |
| 5% | static | 1.6095 | 0.32% | 98.89% |
`;

// The texts of a drawing, in order.
const textsOf = (svg) => [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);

test("the table of group-losses is read, and nothing else of it", () => {
  const { cells, losses } = rowsOf(kTable, "results/weft-tiny.md");
  assert.deepEqual(cells, []);
  assert.deepEqual(losses, [
    { model: "weft-tiny", lost: 10, which: "high norm", worse: 58.14 },
    { model: "weft-tiny", lost: 5, which: "random", worse: 1.54 },
    { model: "weft-tiny", lost: 5, which: "static", worse: 0.32 },
  ]);
});

test("a speedup is TCP's time over that of datagrams, where both were measured", () => {
  const text = [cell("tcp", 0, 60), cell("udp", 0, 60), cell("tcp", 5, 400), cell("udp", 5, 100),
    cell("tcp", 2, 90)].join("\n");
  const figures = figuresOf(rowsOf(text, "a.jsonl"));
  assert.deepEqual(Object.keys(figures), ["halo-time", "halo-speedup"]);
  const texts = textsOf(figures["halo-speedup"]);
  assert.ok(texts.includes("4.00") && texts.includes("1.00"), texts.join());
  assert.ok(texts.includes("8B, 4 devices"));
  assert.equal((figures["halo-speedup"].match(/fill="#5f8fd9"/g)).length, 3); // two, and the legend
});

test("of cells that are alike the median counts", () => {
  const text = [cell("udp", 0, 70), cell("udp", 0, 60), cell("udp", 0, 99), cell("udp", 5, 80)]
    .join("\n");
  const texts = textsOf(figuresOf(rowsOf(text, "a.jsonl"))["halo-time"]);
  assert.ok(texts.includes("70.0") && !texts.includes("99.0"), texts.join());
});

test("regimes are drawn where there are several delays, without one device alone", () => {
  const text = [cell("layers", 0, 25), cell("udp", 0, 30, { delay_ms: 0.1 }),
    cell("layers", 0, 12, { helpers: 0, delay_ms: 7 })].join("\n");
  const texts = textsOf(figuresOf(rowsOf(text, "a.jsonl"))["halo-regimes"]);
  assert.ok(texts.includes("0.1 ms") && texts.includes("1 ms"), texts.join());
  assert.ok(!texts.includes("7 ms"));
});

test("a scale has round steps", () => {
  const text = [cell("udp", 0, 128), cell("udp", 5, 655)].join("\n");
  const texts = textsOf(figuresOf(rowsOf(text, "a.jsonl"))["halo-time"]);
  assert.deepEqual(texts.slice(1, 9), ["0", "100", "200", "300", "400", "500", "600", "700"]);
});

test("what is no letter of SVG is escaped", () => {
  const svg = figuresOf(rowsOf([cell("udp", 0, 1, { label: "a<b & c" }),
    cell("udp", 1, 1, { label: "a<b & c" })].join("\n"), "a.jsonl"))["halo-time"];
  assert.ok(svg.includes("a&#60;b &#38; c"));
});

test("what nobody can know is drawn apart from what is measured at each loss", () => {
  const table = `${kTable}| 10% | random | 1.6608 | 4.29% | 97.66% |\n` +
    "| 10% | static | 1.6129 | 1.28% | 98.41% |\n";
  const figures = figuresOf(rowsOf(table, "weft-tiny.md"));
  assert.deepEqual(Object.keys(figures), ["halo-bounds", "halo-accuracy"]);
  const bounds = textsOf(figures["halo-bounds"]), byLoss = textsOf(figures["halo-accuracy"]);
  assert.ok(bounds.includes("58.1") && bounds.includes("4.29"), bounds.join());
  assert.ok(bounds.includes("10% lost") && !bounds.includes("5% lost"), bounds.join());
  assert.ok(!byLoss.includes("58.1") && byLoss.includes("0.32"), byLoss.join());
  assert.ok(byLoss.includes("10% lost") && byLoss.includes("5% lost"), byLoss.join());
});
