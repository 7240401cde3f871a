import assert from "node:assert/strict";
import { test } from "node:test";

import { argumentsOf, isMeasured, kSeries } from "./series.mjs";

const named = (name) => kSeries.find((series) => series.name === name);
const kPlace = { packages: { "8B": "packages/8b" }, weft: "bin/weft", dllama: "bin/dllama",
  json: "cells.jsonl" };

// The value behind an option's name.
const valueOf = (args, option) => args[args.indexOf(`--${option}`) + 1];

test("every series has a name of its own, which --only can list", () => {
  assert.equal(new Set(kSeries.map(({ name }) => name)).size, kSeries.length);
  for (const { name } of kSeries) assert.ok(!name.includes(","), name);
});

test("a run has its series' options, of one kind and number of helpers", () => {
  const args = argumentsOf(named("8B"), 3, "udp", kPlace);
  for (const [option, value] of [["package", "packages/8b"], ["helpers", "3"], ["kinds", "udp"],
    ["loss", "0,5"], ["delay-ms", "1"], ["tokens", "16"], ["label", "8B"],
    ["json", "cells.jsonl"], ["weft", "bin/weft"]]) assert.equal(valueOf(args, option), value);
  for (const option of ["--shape", "--dllama", "--name", "--losses"])
    assert.ok(!args.includes(option), option);
});

test("a run of the peer has the shape in place of the package", () => {
  const args = argumentsOf(named("8B of the peer"), 1, "dllama", kPlace);
  for (const [option, value] of [["shape", "8B"], ["layers", "8"], ["dllama", "bin/dllama"],
    ["label", "8B"]]) assert.equal(valueOf(args, option), value);
  assert.ok(!args.includes("--package"));
});

test("a run is measured once all of its losses are there, under its own conditions", () => {
  const cell = (loss, more = {}) => ({ label: "8B", helpers: 3, kind: "udp", loss, delay_ms: 1,
    mbit: 1000, ...more });
  const isThere = (cells, helpers = 3) => isMeasured(named("8B"), helpers, "udp", cells);
  assert.ok(isThere([cell(0), cell(5)]));
  assert.ok(!isThere([cell(0)]));
  assert.ok(!isThere([cell(0), cell(5, { delay_ms: 5 })]));
  assert.ok(!isThere([cell(0), cell(5, { mbit: 10000 })]));
  assert.ok(!isThere([cell(0), cell(5)], 7));
  assert.ok(isThere([cell(0, { helpers: 0 })], 0), "one device loses nothing");
});

test("experts that are asked for otherwise are other cells", () => {
  const two = named("30B-A3B with 2 at once");
  const label = valueOf(argumentsOf(two, 3, "experts", kPlace), "label");
  const cells = two.delays.map((delay) =>
    ({ label, helpers: 3, kind: "experts", loss: 0, delay_ms: delay, mbit: 1000 }));
  assert.ok(isMeasured(two, 3, "experts", cells));
  assert.ok(!isMeasured(two, 3, "experts", cells.slice(1)), "a delay is missing");
  assert.ok(!isMeasured(named("30B-A3B with 3 at once"), 3, "experts", cells));
});
