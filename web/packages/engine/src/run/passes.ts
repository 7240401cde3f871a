// Cuts a step into passes: some rows at a time through the layers, at most `headRows` of them
// through the output head at a time. Each pass is one submission with its own arena contents.
import type { Run, StepInput } from "../stage/stageEngine.ts";
import type { ArenaRow } from "./arena.ts";
import { needsHead } from "./check.ts";

export interface Pass {
  readonly firstRow: number; // of the step
  readonly rows: readonly ArenaRow[];
  // Groups of at most `headRows` rows for the head: index in the pass, and the run.
  readonly heads: readonly (readonly HeadRow[])[];
  // Runs of rows that are given back, as indices in the pass.
  readonly hidden: readonly { first: number; count: number }[];
  // The runs that have rows in the pass: which rows, and whether the run begins with them.
  readonly runs: readonly PassRun[];
}

export interface PassRun {
  readonly index: number; // of the step's runs
  readonly first: number; // row of the pass
  readonly count: number;
  readonly begins: boolean;
}

export interface HeadRow {
  readonly row: number;
  readonly run: Run;
}

interface StepRow extends ArenaRow {
  readonly run: Run;
  readonly isLast: boolean; // of its run
}

function rowsOf(input: StepInput): StepRow[] {
  const rows: StepRow[] = [];
  for (const run of input.runs) {
    for (let i = 0; i < run.count; ++i) {
      rows.push({
        token: input.tokenIds[rows.length] ?? 0,
        position: run.firstPosition + i,
        session: run.session,
        run,
        isLast: i + 1 === run.count,
      });
    }
  }
  return rows;
}

export function passesOf(input: StepInput, bodyRows: number, headRows: number): Pass[] {
  const rows = rowsOf(input);
  const passes: Pass[] = [];
  for (let firstRow = 0; firstRow < rows.length; firstRow += bodyRows) {
    const own = rows.slice(firstRow, firstRow + bodyRows);
    const runs = runsOf(own, input.runs);
    const heads = headsOf(own, headRows);
    passes.push({ firstRow, rows: own, heads, hidden: hiddenOf(own), runs });
  }
  return passes;
}

function runsOf(rows: readonly StepRow[], runs: readonly Run[]): PassRun[] {
  const found: { index: number; first: number; count: number; begins: boolean }[] = [];
  for (const [row, { run, position }] of rows.entries()) {
    const last = found.at(-1);
    if (last && runs[last.index] === run) ++last.count;
    else {
      const begins = position === run.firstPosition;
      found.push({ index: runs.indexOf(run), first: row, count: 1, begins });
    }
  }
  return found;
}

function headsOf(rows: readonly StepRow[], headRows: number): HeadRow[][] {
  const wanted: HeadRow[] = [];
  for (const [row, { run, isLast }] of rows.entries()) {
    if (run.output.kind === "logits" || (isLast && needsHead(run))) wanted.push({ row, run });
  }
  const groups: HeadRow[][] = [];
  for (let at = 0; at < wanted.length; at += headRows) {
    groups.push(wanted.slice(at, at + headRows));
  }
  return groups;
}

function hiddenOf(rows: readonly StepRow[]): { first: number; count: number }[] {
  const ranges: { first: number; count: number }[] = [];
  for (const [row, { run }] of rows.entries()) {
    if (run.output.kind !== "hidden") continue;
    const last = ranges.at(-1);
    if (last && last.first + last.count === row) ++last.count;
    else ranges.push({ first: row, count: 1 });
  }
  return ranges;
}

export function chunksOf(rows: readonly ArenaRow[]): number {
  return rows.reduce((most, { position }) => Math.max(most, (position >> 8) + 1), 1);
}
