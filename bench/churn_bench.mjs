// Chaos on real processes: native workers on loopback (or three tabs) are killed, stopped and cut
// off by a seeded schedule while a client streams greedy answers. docs/churn.md says what is
// measured and how; --help what can be chosen.
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { allCells, selectCells } from "./churn/cells.mjs";
import { drawFigures } from "./churn/plot.mjs";
import { Reference } from "./churn/reference.mjs";
import {
  missedBars, missedTakeovers, reportOf, tableRow, takeoverRows,
} from "./churn/report.mjs";
import { runCell } from "./churn/run_cell.mjs";
import { packageOf, root } from "./lib/packages.mjs";

const kUsage = `Usage: ./dev bench churn [options]
  --cells PATTERNS   names of cells, separated by commas, * for anything (default tiny-*-25-128);
                     '*' runs all, '*-ramp-*' those of the figures, 'tabs-*' those with Chromium
  --list             prints the names of all cells and ends
  --seconds N        how long each cell lasts (default 120, 600 for those of the figures)
  --seed N           of the schedules of failures (default 1)
  --threads N        threads of a native worker (default 1)
  --json FILE        appends a line of JSON for each cell
  --plot FILE        draws what --json wrote, runs nothing; into the folder --out (default .)
`;

function parseOptions() {
  const text = (value) => ({ type: "string", default: value });
  const { values } = parseArgs({ options: {
    weft: text("build/release/weft"), cells: text("tiny-*-25-128"), seconds: text("0"),
    seed: text("1"), threads: text("1"), json: text(""), plot: text(""), out: text("."),
    list: { type: "boolean", default: false }, help: { type: "boolean", default: false },
  } });
  return values;
}

async function tabSettings(cells) {
  if (!cells.some(({ kind }) => kind === "tabs")) return {};
  execFileSync("node", ["app/build/gen_proto.mjs"], { cwd: join(root, "web") });
  const tabs = await import("../tests/e2e/lib/tabs.mjs");
  await tabs.buildHarness();
  return { tabs, browser: await tabs.launchBrowser() };
}

async function runAll(options) {
  const { weft } = options;
  const threads = Number(options.threads);
  const cells = selectCells(options.cells);
  const scratch = mkdtempSync(join(tmpdir(), "weft-churn-reference-"));
  const reference = new Reference(weft, threads, scratch);
  const { tabs, browser } = await tabSettings(cells);
  const reports = [];
  try {
    for (const each of cells) {
      const cell = { ...each, seconds: Number(options.seconds) || each.seconds };
      const model = packageOf(weft, cell.model);
      const prompts = await reference.prompts(cell.model, model.folder, cell);
      const settings = { weft, threads, blobs: reference.blobs(cell.model), browser,
        tabs: cell.kind === "tabs" ? tabs : null };
      const happened = await runCell(cell, model, prompts, Number(options.seed), settings);
      const report = reportOf(cell, happened, Number(options.seed));
      reports.push(report);
      if (options.json) appendFileSync(options.json, `${JSON.stringify(report)}\n`);
      console.log(JSON.stringify(tableRow(report)));
    }
  } finally {
    await browser?.close();
    rmSync(scratch, { recursive: true, force: true });
  }
  return reports;
}

function printSummary(reports) {
  console.table(reports.map(tableRow));
  console.table(takeoverRows(reports));
  const missed = [...reports.flatMap(missedBars), ...missedTakeovers(reports)];
  console.log(missed.length === 0 ? "every bar is met" : `bars that are missed:`);
  for (const sentence of missed) console.log(`  ${sentence}`);
}

const options = parseOptions();
if (options.help) console.log(kUsage);
else if (options.list) for (const { name } of allCells()) console.log(name);
else if (options.plot) drawFigures(options.plot, options.out);
else {
  if (options.json) writeFileSync(options.json, "");
  printSummary(await runAll(options));
}
