// One step on the machine: passes encoded one after another, one read back at the end.
import { write } from "../gpu/buffers.ts";
import type { ExchangePoint } from "../dispatch/layer.ts";
import { headPassRows } from "../dispatch/layout.ts";
import type { LoadedLayer } from "../dispatch/loadedLayer.ts";
import type { StateSlots } from "../kv/states.ts";
import { endsInLogits } from "../program/ir.ts";
import { scaleOf } from "../stage/selectRow.ts";
import type { StepInput, StepOutput } from "../stage/stageEngine.ts";
import { Arena } from "./arena.ts";
import type { ArenaContents, StateRuns } from "./arena.ts";
import { inputColumns, outputColumns } from "./check.ts";
import type { Work } from "./encoder.ts";
import { ExchangeRun } from "./exchange.ts";
import type { PassRows } from "./exchange.ts";
import type { Machine } from "./machine.ts";
import { chunksOf, passesOf } from "./passes.ts";
import type { HeadRow, Pass } from "./passes.ts";
import { kCheckBytes, Results, selectsOnGpu } from "./results.ts";

type SessionPages = ReadonlyMap<number, readonly number[]>;

// Work up to an exchange, or up to the end.
interface Segment {
  readonly works: Work[];
  readonly exchange: ExchangePoint | null; // behind the work
}

// What runs with one arena: one submission, or one more for every exchange.
interface Submission {
  readonly contents: ArenaContents;
  readonly rows: PassRows;
  readonly upload: (() => void) | null; // of the rows that came with the step
  readonly segments: readonly Segment[];
  readonly firstPiece: number;
  readonly endPiece: number;
}

// Where a pass finds the state of its runs: a run that an earlier pass began goes on from the slot
// that it writes. A head's pass over the same rows runs no layer with state.
export function stateRunsOf({ runs }: Pick<Pass, "runs">, slots: readonly StateSlots[]): StateRuns {
  const words = slots.flatMap(({ before, after }) =>
    runs.flatMap(({ index, first, count, begins }) => [
      first,
      count,
      begins ? before[index]! : after[index]!,
      after[index]!,
    ]),
  );
  return { runCount: runs.length, words };
}

function contentsOf(
  pass: Pass,
  head: readonly HeadRow[],
  pages: SessionPages,
  slots: readonly StateSlots[],
): ArenaContents {
  const headRows = head.map(({ row }) => row);
  const scales = head.map(({ run: { output } }) =>
    scaleOf(output.kind === "candidates" ? output.sampling : undefined),
  );
  const chunks = chunksOf(pass.rows);
  const stateRuns = stateRunsOf(pass, slots);
  return { rows: pass.rows, headRows, scales, pages, chunks, historySlot: null, stateRuns };
}

// A GPU begins with what is submitted while the rest is encoded: Node takes 1.1 ms for the 70
// dispatches of fourteen layers, and the GPU as long for their kernels. At least one, perhaps
// empty.
const kPortionDispatches = 24;

function portionsOf(works: readonly Work[]): Work[][] {
  const portions: Work[][] = [[]];
  let count = 0;
  for (const work of works) {
    if (count >= kPortionDispatches) {
      portions.push([]);
      count = 0;
    }
    portions.at(-1)!.push(work);
    for (const { when } of work.dispatches) if (when(work.shape)) ++count;
  }
  return portions;
}

// Words that the largest pass of the step takes in the arena.
export function arenaWords(
  layers: readonly LoadedLayer[],
  input: StepInput,
  bodyRows: number,
  pages: SessionPages,
  slots: readonly StateSlots[],
  ropeColumns: number,
): number {
  return Math.max(
    ...passesOf(input, bodyRows, headPassRows(layers.at(-1)!.program)).map((pass) =>
      Arena.words(contentsOf(pass, pass.heads[0] ?? [], pages, slots), ropeColumns),
    ),
  );
}

export class StepRunner {
  readonly #machine: Machine;
  readonly #layers: readonly LoadedLayer[];
  readonly #input: StepInput;
  readonly #pages: SessionPages;
  readonly #slots: readonly StateSlots[]; // of all loaded layers with state
  readonly #results: Results;

  // REQUIRES: checked input, prepared machine, room in the arena.
  constructor(
    machine: Machine,
    layers: readonly LoadedLayer[],
    input: StepInput,
    pages: SessionPages,
    slots: readonly StateSlots[],
  ) {
    this.#machine = machine;
    this.#layers = layers;
    this.#input = input;
    this.#pages = pages;
    this.#slots = slots;
    this.#results = new Results(machine.layout, machine.act, machine.aux);
  }

  // Resolves once all is submitted; `output` is there when the GPU has computed it.
  async run(
    before: (encoder: GPUCommandEncoder) => void,
  ): Promise<{ output: Promise<StepOutput> }> {
    const { staging } = this.#machine;
    const { bodyRows } = this.#machine.layout;
    const submissions = passesOf(this.#input, bodyRows, headPassRows(this.#last.program)).flatMap(
      (pass) => this.#submissionsOf(pass),
    );
    const sizeBefore = this.#results.byteCount;
    const target = staging.take(sizeBefore + kCheckBytes);
    try {
      await this.#submitAll(submissions, target, before);
    } catch (error) {
      staging.giveBack(target);
      throw error;
    }
    const read = async (): Promise<StepOutput> => {
      const bytes = await staging.read(target, sizeBefore + kCheckBytes);
      return this.#results.finish(bytes, this.#layers[0]!.index, this.#layers.at(-1)!.index);
    };
    return { output: read() };
  }

  async #submitAll(
    submissions: readonly Submission[],
    target: GPUBuffer,
    before: (encoder: GPUCommandEncoder) => void,
  ): Promise<void> {
    const { buffers, aux, arena, ropes, encoder } = this.#machine;
    buffers.gpu.device.queue.writeBuffer(aux, 0, new Uint32Array(kCheckBytes / 4));
    let onFirst: typeof before | undefined = before;
    for (const [index, submission] of submissions.entries()) {
      const { contents, rows, upload, segments, firstPiece, endPiece } = submission;
      const isLast = index === submissions.length - 1;
      if (isLast) this.#results.addCheck();
      arena.write(contents, ropes);
      upload?.();
      const own = this.#results.takeCopies(target, firstPiece).slice(0, endPiece - firstPiece);
      const check = isLast ? this.#results.takeCopies(target, this.#results.pieceCount - 1) : [];
      for (const { works, exchange } of segments) {
        const stop = exchange ? new ExchangeRun(this.#machine, exchange, rows) : null;
        const copies = stop ? [stop.copy] : [...own, ...check];
        const portions = portionsOf(works);
        for (const [at, portion] of portions.entries()) {
          encoder.submit(portion, at + 1 === portions.length ? copies : [], onFirst);
          onFirst = undefined;
        }
        await stop?.run(this.#input.exchange!);
      }
    }
  }

  // The layers and the first rows of the head in one submission, more of the head in further ones.
  #submissionsOf(pass: Pass): Submission[] {
    const submissions: Submission[] = [];
    const groups = pass.heads.length > 0 ? pass.heads : [[]];
    for (const [index, head] of groups.entries()) {
      const firstPiece = this.#results.pieceCount;
      const isFirst = index === 0;
      const segments = isFirst ? this.#bodySegments(pass) : [{ works: [], exchange: null }];
      segments.at(-1)!.works.push(...this.#headWorks(head));
      const columns = outputColumns(this.#last);
      if (isFirst && !endsInLogits(this.#last.program)) {
        for (const { first, count } of pass.hidden) {
          if (this.#packsOutput) this.#results.addPacked(first, count, columns);
          else this.#results.addHidden(first, count, columns);
        }
      }
      for (const [row, { run }] of head.entries()) this.#results.addHeadRow(row, run, columns);
      submissions.push({
        contents: contentsOf(pass, head, this.#pages, this.#slots),
        rows: { first: pass.firstRow, count: pass.rows.length },
        upload: isFirst ? this.#uploadOf(pass) : null,
        segments,
        firstPiece,
        endPiece: this.#results.pieceCount,
      });
    }
    return submissions;
  }

  get #last(): LoadedLayer {
    return this.#layers.at(-1)!;
  }

  get #packsOutput(): boolean {
    return this.#input.packOutput === true;
  }

  #bodySegments(pass: Pass): Segment[] {
    const { length } = pass.runs;
    const rows = pass.rows.length;
    const shape = { rows, chunks: chunksOf(pass.rows), runs: length, isApart: length === rows };
    const segments: Segment[] = [];
    let works: Work[] = [];
    const [first] = this.#layers;
    if (this.#input.packed && inputColumns(first!) > 0) {
      works.push({ dispatches: this.#machine.dispatchesOf(first!.index).unpack, shape });
    }
    const body = this.#layers.filter(({ program }) => !endsInLogits(program));
    for (const { index } of body) {
      const { layer, exchanges } = this.#machine.dispatchesOf(index);
      let done = 0;
      for (const exchange of exchanges) {
        works.push({ dispatches: layer.slice(done, exchange.at), shape });
        segments.push({ works, exchange });
        works = [];
        done = exchange.at;
      }
      works.push({ dispatches: done === 0 ? layer : layer.slice(done), shape });
    }
    const last = body.at(-1);
    if (last) {
      const { check, checkAndPack } = this.#machine.dispatchesOf(last.index);
      works.push({ dispatches: this.#packsOutput ? checkAndPack : check, shape });
    }
    return [...segments, { works, exchange: null }];
  }

  #headWorks(head: readonly HeadRow[]): Work[] {
    if (head.length === 0) return [];
    const own = this.#machine.dispatchesOf(this.#last.index);
    const shape = { rows: head.length, chunks: 1, runs: 0 };
    const works = [own.gather, own.layer, own.argmax];
    if (head.some(({ run }) => selectsOnGpu(run))) works.push(own.topK);
    return works.map((dispatches) => ({ dispatches, shape }));
  }

  // Brings the pass' rows of those that came with the step onto the GPU: as bits, or at the stride
  // of the residual stream.
  #uploadOf(pass: Pass): Submission["upload"] {
    const columns = inputColumns(this.#layers[0]!);
    if (columns === 0) return null;
    const { act, layout, buffers } = this.#machine;
    const { queue } = buffers.gpu.device;
    const { packed } = this.#input;
    if (packed) {
      const first = 2 * pass.firstRow * columns;
      const bytes = packed.subarray(first, first + 2 * pass.rows.length * columns);
      return () => write(buffers.gpu.device, act, 4 * layout.packedBase, bytes);
    }
    const values = this.#stridedRows(pass, columns);
    return () => queue.writeBuffer(act, 0, values);
  }

  #stridedRows(pass: Pass, columns: number): Float32Array<ArrayBuffer> {
    const { stride } = this.#machine.layout.residual;
    const values = new Float32Array(pass.rows.length * stride);
    for (let row = 0; row < pass.rows.length; ++row) {
      const from = (pass.firstRow + row) * columns;
      values.set(this.#input.hidden.subarray(from, from + columns), row * stride);
    }
    return values;
  }
}
