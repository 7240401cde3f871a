import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { expect, it } from "vitest";

import { probeColumns, probeRows } from "./index.ts";

interface Golden {
  seed: string;
  rows: number;
  columns: number;
  parts_of_1024: number[];
  chosen: number[];
}

const path = new URL("../../../../tests/golden/probe_rows.json", import.meta.url);
const golden = JSON.parse(readFileSync(fileURLToPath(path), "utf8")) as Golden[];

it.each(golden)("probe rows of seed $seed are those of the formula", (each) => {
  const rows = probeRows(BigInt(each.seed), each.rows, each.columns);
  expect([...rows].map((value) => value * 1024)).toEqual(each.parts_of_1024);
  expect(probeColumns(each.columns)).toEqual(each.chosen);
});
