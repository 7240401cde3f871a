// One step on the machine: passes encoded one after another, one read back at the end.
import type { LoadedLayer } from "../plan/loadedLayer.ts";
import { endsInLogits } from "../program/ir.ts";
import { scaleOf } from "../sampling.ts";
import type { StepInput, StepOutput } from "../stageEngine.ts";
import { Arena } from "./arena.ts";
import type { ArenaContents } from "./arena.ts";
import { inputColumns, outputColumns } from "./check.ts";
import type { Work } from "./encoder.ts";
import type { Machine } from "./machine.ts";
import { chunksOf, passesOf } from "./passes.ts";
import type { HeadRow, Pass } from "./passes.ts";
import { Results, selectsOnGpu } from "./results.ts";

type SessionPages = ReadonlyMap<number, readonly number[]>;

// One submission.
interface Submission {
  readonly contents: ArenaContents;
  readonly hidden: { readonly values: Float32Array<ArrayBuffer> } | null;
  readonly works: readonly Work[];
  readonly firstPiece: number;
  readonly endPiece: number;
}

function contentsOf(pass: Pass, head: readonly HeadRow[], pages: SessionPages): ArenaContents {
  const headRows = head.map(({ row }) => row);
  const scales = head.map(({ run: { output } }) =>
    scaleOf(output.kind === "candidates" ? output.sampling : undefined),
  );
  const chunks = chunksOf(pass.rows);
  return { rows: pass.rows, headRows, scales, pages, chunks, historySlot: null };
}

// Words that the largest pass of the step takes in the arena.
export function arenaWords(input: StepInput, pages: SessionPages, ropeColumns: number): number {
  return Math.max(
    ...passesOf(input).map((pass) =>
      Arena.words(contentsOf(pass, pass.heads[0] ?? [], pages), ropeColumns),
    ),
  );
}

export class StepRunner {
  readonly #machine: Machine;
  readonly #layers: readonly LoadedLayer[];
  readonly #input: StepInput;
  readonly #pages: SessionPages;
  readonly #results: Results;

  // REQUIRES: checked input, prepared machine, room in the arena.
  constructor(
    machine: Machine,
    layers: readonly LoadedLayer[],
    input: StepInput,
    pages: SessionPages,
  ) {
    this.#machine = machine;
    this.#layers = layers;
    this.#input = input;
    this.#pages = pages;
    this.#results = new Results(machine.layout, machine.act, machine.aux);
  }

  async run(before: (encoder: GPUCommandEncoder) => void): Promise<StepOutput> {
    const { buffers, aux, staging, act, arena, ropes, encoder } = this.#machine;
    const { queue } = buffers.gpu.device;
    const submissions = passesOf(this.#input).flatMap((pass) => this.#submissionsOf(pass));
    const target = staging.take(this.#results.byteCount + 4);
    const sizeBefore = this.#results.byteCount;
    queue.writeBuffer(aux, 0, new Uint32Array(1));
    for (const [index, submission] of submissions.entries()) {
      const { contents, hidden, works, firstPiece, endPiece } = submission;
      const isLast = index === submissions.length - 1;
      if (isLast) this.#results.addCheck();
      arena.write(contents, ropes);
      if (hidden) queue.writeBuffer(act, 0, hidden.values);
      const own = this.#results.takeCopies(target, firstPiece).slice(0, endPiece - firstPiece);
      const check = isLast ? this.#results.takeCopies(target, this.#results.pieceCount - 1) : [];
      encoder.submit(works, [...own, ...check], index === 0 ? before : undefined);
    }
    const bytes = await staging.read(target, sizeBefore + 4);
    return this.#results.finish(bytes, this.#layers.at(-1)!.index);
  }

  // The layers and the first rows of the head in one submission, more of the head in further ones.
  #submissionsOf(pass: Pass): Submission[] {
    const submissions: Submission[] = [];
    const groups = pass.heads.length > 0 ? pass.heads : [[]];
    for (const [index, head] of groups.entries()) {
      const firstPiece = this.#results.pieceCount;
      const isFirst = index === 0;
      const works = [...(isFirst ? this.#bodyWorks(pass) : []), ...this.#headWorks(head)];
      const { columns, last } = { columns: outputColumns(this.#last), last: this.#last };
      if (isFirst && !endsInLogits(last.program)) {
        for (const { first, count } of pass.hidden) this.#results.addHidden(first, count, columns);
      }
      for (const [row, { run }] of head.entries()) this.#results.addHeadRow(row, run, columns);
      submissions.push({
        contents: contentsOf(pass, head, this.#pages),
        hidden: isFirst ? this.#hiddenRows(pass) : null,
        works,
        firstPiece,
        endPiece: this.#results.pieceCount,
      });
    }
    return submissions;
  }

  get #last(): LoadedLayer {
    return this.#layers.at(-1)!;
  }

  #bodyWorks(pass: Pass): Work[] {
    const shape = { rows: pass.rows.length, chunks: chunksOf(pass.rows) };
    const body = this.#layers.filter(({ program }) => !endsInLogits(program));
    const works = body.map((layer) => ({
      dispatches: this.#machine.plan(layer.index).layer,
      shape,
    }));
    const last = body.at(-1);
    if (last) works.push({ dispatches: this.#machine.plan(last.index).check, shape });
    return works;
  }

  #headWorks(head: readonly HeadRow[]): Work[] {
    if (head.length === 0) return [];
    const plan = this.#machine.plan(this.#last.index);
    const shape = { rows: head.length, chunks: 1 };
    const works = [plan.gather, plan.layer, plan.argmax];
    if (head.some(({ run }) => selectsOnGpu(run))) works.push(plan.topK);
    return works.map((dispatches) => ({ dispatches, shape }));
  }

  // The rows that came with the step, at the stride of the residual stream.
  #hiddenRows(pass: Pass): Submission["hidden"] {
    const columns = inputColumns(this.#layers[0]!);
    if (columns === 0) return null;
    const { stride } = this.#machine.layout.residual;
    const values = new Float32Array(pass.rows.length * stride);
    for (let row = 0; row < pass.rows.length; ++row) {
      const from = (pass.firstRow + row) * columns;
      values.set(this.#input.hidden.subarray(from, from + columns), row * stride);
    }
    return { values };
  }
}
