// The checks of a step before anything is computed: the same as src/engine/step.cc.
import { EngineError } from "../base/error.ts";
import type { LoadedLayer } from "../dispatch/loadedLayer.ts";
import { endsInLogits } from "../program/ir.ts";
import type { Run, StepInput } from "../stage/stageEngine.ts";
import { countNonFinite } from "../sampling/selectTop.ts";
import { kMaxCandidates, kMaxTopLogprobs } from "../sampling/tokenLogit.ts";

function refused(message: string): EngineError {
  return new EngineError("invalid_argument", message);
}

export function needsHead({ output }: Run): boolean {
  return output.kind !== "none" && output.kind !== "hidden";
}

export function inputColumns({ program }: LoadedLayer): number {
  return program.input === null ? 0 : program.buffers[program.input]!.columns;
}

export function outputColumns({ program }: LoadedLayer): number {
  return program.buffers[program.output]!.columns;
}

// The loaded layers of the range, in order and fitting each other.
export function layersOf(
  loaded: ReadonlyMap<number, LoadedLayer>,
  { first, end }: StepInput["layers"],
): LoadedLayer[] {
  if (first >= end) throw refused(`A step over layers [${first}, ${end}) runs no layer.`);
  const layers: LoadedLayer[] = [];
  for (let index = first; index < end; ++index) {
    const layer = loaded.get(index);
    if (!layer) {
      throw refused(
        `Layer ${index} is not loaded, so a step over layers [${first}, ${end}) cannot run.`,
      );
    }
    const before = layers.at(-1);
    if (before && (layer.program.input === null || endsInLogits(before.program))) {
      throw refused(`No layer can hand layer ${index} a residual stream.`);
    }
    if (before && inputColumns(layer) !== outputColumns(before)) {
      throw refused(
        `Layer ${index} takes ${inputColumns(layer)} columns; the layer before it gives ` +
          `${outputColumns(before)}.`,
      );
    }
    checkAttended(loaded, { first, end }, layer);
    layers.push(layer);
  }
  return layers;
}

// A layer that attends to another one's keys and values runs in the step that appends them.
function checkAttended(
  loaded: ReadonlyMap<number, LoadedLayer>,
  { first, end }: StepInput["layers"],
  { index, attention }: LoadedLayer,
): void {
  if (!attention || attention.kvLayer === null) return;
  const who = `Layer ${index} attends to the keys and values of layer ${attention.kvLayer}`;
  if (attention.kvLayer < first) {
    throw refused(`${who}, so a step over layers [${first}, ${end}) cannot run.`);
  }
  const source = loaded.get(attention.kvLayer)?.attention;
  const fits =
    source?.kvLayer === null &&
    source.kvHeads === attention.kvHeads &&
    source.headColumns === attention.headColumns &&
    source.valueColumns === attention.valueColumns;
  if (!fits) throw refused(`${who}, which keeps none of its shape.`);
}

// Returns the number of rows.
export function checkStep(layers: readonly LoadedLayer[], input: StepInput): number {
  if (input.runs.length === 0) throw refused("A step needs at least one run of rows; it has none.");
  const last = layers.at(-1)!;
  const sessions = new Set<number>();
  let rows = 0;
  for (const run of input.runs) {
    if (sessions.has(run.session)) {
      throw refused(`Session ${run.session} has two runs in one step.`);
    }
    sessions.add(run.session);
    checkOutput(run, last);
    rows += run.count;
  }
  checkRows(layers[0]!, input, rows);
  checkExchanges(layers, input);
  return rows;
}

function checkOutput(run: Run, last: LoadedLayer): void {
  const who = `The run of session ${run.session}`;
  const isHead = endsInLogits(last.program);
  if (needsHead(run) && !isHead) {
    throw refused(
      `${who} asks for tokens or logits, but the step does not include the output head.`,
    );
  }
  if (run.output.kind === "hidden" && isHead) {
    throw refused(
      `${who} asks for the residual stream, but the step ends with the output head.`,
    );
  }
  const { output } = run;
  if (output.kind !== "candidates" && output.kind !== "draw") return;
  const isDraw = output.kind === "draw";
  const most = Math.min(isDraw ? kMaxTopLogprobs : kMaxCandidates, outputColumns(last));
  const least = isDraw ? 0 : 1;
  const { count } = output;
  if (Number.isInteger(count) && count >= least && count <= most) return;
  const what = isDraw ? "tokens beside a draw" : "candidates";
  throw refused(`${who} asks for ${count} ${what}; expected ${least} to ${most}.`);
}

function checkExchanges(layers: readonly LoadedLayer[], { exchange }: StepInput): void {
  if (exchange) return;
  for (const { program, index } of layers) {
    if (!program.ops.some(({ kind }) => kind === "exchange")) continue;
    throw refused(
      `Layer ${index} exchanges rows in the middle of a step; this one came without 'exchange'.`,
    );
  }
}

// Rows in `packed` are checked as they are unpacked, on the GPU.
function checkRows(first: LoadedLayer, input: StepInput, rows: number): void {
  const isEmbedding = first.program.input === null;
  const ids = isEmbedding ? rows : 0;
  const isPacked = input.packed !== undefined && !isEmbedding;
  const all = rows * inputColumns(first);
  const values = isPacked ? 0 : all;
  if (isPacked && input.packed.length !== 2 * all) {
    throw refused(
      `${rows} packed rows for layer ${first.index} take ${2 * all} bytes; ` +
        `${input.packed.length} came.`,
    );
  }
  if (input.tokenIds.length !== ids || input.hidden.length !== values) {
    throw refused(
      `A step of ${rows} rows that begins with layer ${first.index} takes ${ids} token ids and ` +
        `${values} hidden values; it was given ${input.tokenIds.length} and ` +
        `${input.hidden.length}.`,
    );
  }
  const vocabulary = vocabularyOf(first);
  for (const id of input.tokenIds) {
    if (id >= 0 && id < vocabulary) continue;
    throw refused(`Token id ${id} is outside the vocabulary of ${vocabulary}.`);
  }
  const bad = countNonFinite(input.hidden);
  if (bad === 0) return;
  throw new EngineError(
    "invalid_data",
    `The rows handed to layer ${first.index} hold ${bad} values that are not finite.`,
  );
}

// Rows of the embedding's smallest table; 0 for other layers.
export function vocabularyOf({ program }: LoadedLayer): number {
  const rows = program.ops.flatMap((op) =>
    op.kind === "embed" ? [program.weights[op.weight]!.shape[0]!] : [],
  );
  return rows.length === 0 ? 0 : Math.min(...rows);
}
