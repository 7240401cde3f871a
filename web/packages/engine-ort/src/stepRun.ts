// One run of rows through the layers of a stage. What it computes becomes the session's with
// commit(); discard() leaves everything as it was.
import type { Tensor } from "onnxruntime-web";

import { EngineError, countNonFinite, f16ToF32, f32ToF16, selectRow } from "@weft/engine";
import type { Run, Selection, StepInput } from "@weft/engine";

import { readFloats } from "./kvStore.ts";
import type { KvStore } from "./kvStore.ts";
import { integers } from "./layerSession.ts";
import type { LayerSession } from "./layerSession.ts";
import { reason } from "./runtime.ts";
import type { OrtRuntime } from "./runtime.ts";

// Enough rows to read each weight once for many, few enough to keep scratch memory small.
const kRowsPerPass = 128;
// The head's output is as wide as the vocabulary.
const kHeadRowsPerPass = 8;
// Longer without a turn of the event loop, and a ping would have to wait.
const kTurnMs = 50;

// Checks what the sessions do not know about; returns the columns of the residual stream (0 when
// the stage begins with token ids). Throws EngineError.
export function checkStep(sessions: readonly LayerSession[], input: StepInput): number {
  const invalid = (message: string): EngineError => new EngineError("invalid_argument", message);
  const rows = input.runs.reduce((sum, run) => sum + run.count, 0);
  if (rows === 0) throw invalid("A step needs at least one run of rows; it has none.");
  const takesTokens = sessions[0]!.takesTokens;
  const tokens = takesTokens ? rows : 0;
  const columns = takesTokens ? 0 : input.hidden.length / rows;
  const fits = Number.isInteger(columns) && (takesTokens || columns > 0);
  if (input.tokenIds.length !== tokens || !fits || (takesTokens && input.hidden.length > 0)) {
    throw invalid(
      `A step of ${rows} rows that begins with layer ${input.layers.first} takes ` +
        `${takesTokens ? "token ids" : "hidden rows"}; it was given ${input.tokenIds.length} ` +
        `token ids and ${input.hidden.length} hidden values.`,
    );
  }
  const bad = countNonFinite(input.hidden);
  if (bad > 0) {
    throw new EngineError(
      "invalid_data",
      `The rows handed to layer ${input.layers.first} hold ${bad} values that are not finite.`,
    );
  }
  const isLast = sessions.at(-1)!.givesLogits;
  const seen = new Set<number>();
  for (const run of input.runs) {
    const { kind } = run.output;
    if (seen.has(run.session)) throw invalid(`Session ${run.session} has two runs in one step.`);
    seen.add(run.session);
    if (kind !== "none" && (kind === "hidden") === isLast) {
      throw invalid(
        `The run of session ${run.session} asks for ${kind}, but the step ` +
          (isLast ? "ends with the output head." : "does not include the output head."),
      );
    }
  }
  return columns;
}

export class StepRun {
  readonly hidden: Float32Array[] = [];
  readonly logits: Float32Array[] = [];
  readonly selections: Selection[] = [];
  readonly #runtime: OrtRuntime;
  readonly #kv: KvStore;
  readonly #sessions: readonly LayerSession[];
  readonly #run: Run;
  readonly #states = new Map<number, Tensor[]>(); // by layer, not yet the session's
  #turn = performance.now();

  constructor(
    runtime: OrtRuntime,
    kv: KvStore,
    sessions: readonly LayerSession[],
    run: Run,
  ) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#sessions = sessions;
    this.#run = run;
  }

  // `firstRow`: of the run in the step's input.
  async compute(input: StepInput, firstRow: number, columns: number): Promise<void> {
    for (let done = 0; done < this.#run.count; done += kRowsPerPass) {
      const rows = Math.min(kRowsPerPass, this.#run.count - done);
      const from = firstRow + done;
      const value =
        columns === 0
          ? this.#tokens(input.tokenIds.subarray(from, from + rows))
          : this.#hiddenTensor(
              input.hidden.subarray(from * columns, (from + rows) * columns),
              [1, rows, columns],
              this.#sessions[0]!.inputType,
            );
      await this.#pass(value, done, rows);
    }
  }

  commit(): void {
    for (const [layer, tensors] of this.#states) this.#kv.put(this.#run.session, layer, tensors);
    this.#states.clear();
  }

  discard(): void {
    for (const tensors of this.#states.values()) for (const tensor of tensors) tensor.dispose();
    this.#states.clear();
  }

  // Rows [done, done + rows) of the run through all layers.
  async #pass(first: Tensor, done: number, rows: number): Promise<void> {
    const wantsNothing = this.#run.output.kind === "none";
    const last = this.#sessions.at(-1)!;
    let value = first;
    try {
      for (const session of this.#sessions) {
        await this.#letMessagesIn();
        if (session.givesLogits && session.states.length === 0) {
          return await this.#head(session, value, done, rows);
        }
        const wantsValue = session !== last || !wantsNothing;
        const next = await this.#layer(session, value, done, rows, wantsValue);
        if (next !== value) value.dispose();
        value = next;
      }
      if (wantsNothing) return;
      const values = await this.#read(value, last, done, rows);
      if (last.givesLogits) this.#select(values, done, rows, 0, rows);
      else this.hidden.push(values);
    } finally {
      value.dispose();
    }
  }

  async #layer(
    session: LayerSession,
    value: Tensor,
    done: number,
    rows: number,
    wantsValue: boolean,
  ): Promise<Tensor> {
    const { layer, states } = session;
    const past = this.#run.firstPosition + done;
    const own = this.#states.get(layer);
    const before = own
      ? { tensors: own, owned: true }
      : await this.#kv.take(this.#run.session, layer, states, past);
    try {
      const input = { rows, past, value, states: before.tensors };
      const output = await session.run(input, wantsValue);
      if (states.length > 0) this.#states.set(layer, output.states);
      return output.value;
    } catch (error) {
      if (own) this.#states.delete(layer);
      if (error instanceof EngineError) throw error;
      throw new EngineError(
        "unavailable",
        `Layer ${layer} failed for session ${this.#run.session} at position ${past}: ` +
          reason(error),
      );
    } finally {
      if (before.owned) for (const tensor of before.tensors) tensor.dispose();
    }
  }

  // The head runs only for rows whose logits are wanted, a few at a time.
  async #head(session: LayerSession, value: Tensor, done: number, rows: number): Promise<void> {
    const { kind } = this.#run.output;
    const hasLastRow = done + rows === this.#run.count;
    if (kind === "none" || (kind !== "logits" && !hasLastRow)) return;
    const first = kind === "logits" ? 0 : rows - 1;
    const columns = value.dims[2]!;
    const data = first === 0 && rows <= kHeadRowsPerPass ? null : await readFloats(value);
    for (let row = first; row < rows; row += kHeadRowsPerPass) {
      const count = Math.min(kHeadRowsPerPass, rows - row);
      const part = data
        ? this.#floatTensor(data.slice(row * columns, (row + count) * columns), [1, count, columns])
        : value;
      const output = await this.#layer(session, part, done + row, count, true);
      if (part !== value) part.dispose();
      const logits = await this.#read(output, session, done + row, count);
      output.dispose();
      this.#select(logits, done, rows, row, count);
    }
  }

  // `logits` are those of rows [row, row + count) of the pass.
  #select(logits: Float32Array, done: number, rows: number, row: number, count: number): void {
    const { output } = this.#run;
    if (output.kind === "logits") {
      this.logits.push(logits);
      return;
    }
    if (done + rows !== this.#run.count || row + count !== rows) return;
    const last = logits.subarray(logits.length - logits.length / count);
    if (output.kind !== "none" && output.kind !== "hidden") {
      this.selections.push(selectRow(last, output));
    }
  }

  async #read(
    tensor: Tensor,
    session: LayerSession,
    done: number,
    rows: number,
  ): Promise<Float32Array> {
    const data = await readFloats(tensor);
    const values = data instanceof Float32Array ? data : new Float32Array(data.length);
    if (data instanceof Uint16Array) f16ToF32(data, values);
    const bad = countNonFinite(values);
    if (bad === 0) return values;
    const columns = values.length / rows;
    const at = values.findIndex((value) => !Number.isFinite(value));
    throw new EngineError(
      "invalid_data",
      `Layer ${session.layer} computed ${bad} values that are not finite, first in session ` +
        `${this.#run.session} at position ` +
        `${this.#run.firstPosition + done + Math.floor(at / columns)}.`,
    );
  }

  #tokens(ids: Int32Array): Tensor {
    return integers(this.#runtime.ort, this.#sessions[0]!.inputType, ids, [1, ids.length]);
  }

  #hiddenTensor(values: Float32Array, dims: number[], type: string): Tensor {
    if (type !== "float16") return this.#floatTensor(values.slice(), dims);
    const halves = new Uint16Array(values.length);
    f32ToF16(values, halves);
    return this.#floatTensor(halves, dims);
  }

  #floatTensor(data: Float32Array | Uint16Array, dims: number[]): Tensor {
    const type = data instanceof Uint16Array ? "float16" : "float32";
    return new this.#runtime.ort.Tensor(type, data as Float32Array, dims);
  }

  // A wasm run blocks the worker's thread: between layers, messages that wait are let in.
  async #letMessagesIn(): Promise<void> {
    if (performance.now() - this.#turn < kTurnMs) return;
    await new Promise<void>((resolve) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        channel.port1.close();
        resolve();
      };
      channel.port2.postMessage(null);
    });
    this.#turn = performance.now();
  }
}
