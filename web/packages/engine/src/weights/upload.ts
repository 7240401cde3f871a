// Fills a matrix from the package. Rows that need no padding, as those of q4 and q8 never do, go
// where products read them straight from the pieces that the source gives; gate and up, whose
// groups alternate, and what is to be padded or turned around (scales) go through a staging buffer
// and a kernel. Nothing larger than a few MiB lies in JS memory.
import { EngineError } from "../base/error.ts";
import type { Buffers } from "../gpu/buffers.ts";
import { Usage, write } from "../gpu/buffers.ts";
import type { LoadPace } from "../gpu/loadPace.ts";
import { Binding } from "../kernels/common/bindings.ts";
import type { Variant } from "../kernels/common/variant.ts";
import type { Pipelines } from "../gpu/pipelines.ts";
import { kParamBytes } from "../kernels/common/op.ts";
import { interleaveKernel, repackKernel, RepackKind, repackOp } from "../kernels/load/load.ts";
import type { RepackParams } from "../kernels/load/load.ts";
import { isKQuant, isSuperblockFormat, recordBytesOf } from "../program/ir.ts";
import { columnsOf, rowBytes } from "../program/validateWeight.ts";
import type { WeightSource } from "../stage/stageEngine.ts";
import { WeightArray } from "./arrays.ts";
import {
  groupsOf,
  kGroupRows,
  pieceWordsOf,
  superblocksOf,
  superblockWords,
} from "./matrix.ts";
import type { Matrix, MatrixSpec, Section, Slab } from "./matrix.ts";

const kStagingBytes = 4 << 20;
const kThreads = 64;
const kMaxWorkgroups = 32768;

// A run of a section's groups that lie in one slab.
interface Piece {
  readonly section: Section;
  readonly slab: Slab;
  readonly firstLocal: number; // group of the section
  readonly count: number;
  readonly firstOut: number; // group of the slab
  readonly step: number;
}

// One array of a matrix: what repack.wgsl needs to know of it.
interface ArrayForm {
  readonly kind: number; // RepackKind
  readonly words: number; // of a group
  readonly base: number; // word of the buffer where the array begins
}

function superblockForms({ dtype, blocks }: Matrix, zeroBase: number): ArrayForm[] {
  const { partWords, factorWords } = superblockWords(dtype);
  const [parts, factors] = isKQuant(dtype)
    ? [RepackKind.kQuantParts, RepackKind.kQuantFactors]
    : [RepackKind.multipliers, RepackKind.superScales];
  return [
    { kind: parts, words: partWords * blocks, base: 0 },
    { kind: factors, words: factorWords * superblocksOf(blocks), base: zeroBase },
  ];
}

// Where each section's groups go.
function piecesOf(spec: MatrixSpec, matrix: Matrix): Piece[] {
  const pieces: Piece[] = [];
  let base = 0;
  for (const [index, section] of spec.sections.entries()) {
    const groups = groupsOf(section.rows);
    const step = spec.paired ? 2 : 1;
    const first = base + (spec.paired ? index % 2 : 0);
    if (!spec.paired) base += groups;
    else if (index % 2 === 1) base += 2 * groups;
    for (const slab of matrix.slabs) {
      const from = Math.max(0, Math.ceil((slab.firstGroup - first) / step));
      const end = Math.min(groups, Math.ceil((slab.firstGroup + slab.groupCount - first) / step));
      if (from >= end) continue;
      const firstOut = first + from * step - slab.firstGroup;
      pieces.push({ section, slab, firstLocal: from, count: end - from, firstOut, step });
    }
  }
  return pieces;
}

export class Uploader {
  readonly #buffers: Buffers;
  readonly #pipelines: Pipelines;
  readonly #pace: LoadPace;
  #onBytes: (bytes: number) => void = () => undefined;
  // What the device did not do since begin(): for want of memory, or because of what that led to.
  #isFull = false;
  #refusal = "";
  #answers: Promise<void> = Promise.resolve(); // the last one to that question
  #staging: GPUBuffer | null = null;
  #params: GPUBuffer | null = null;
  #handedBytes = 0; // since the last batch
  #underWay: Promise<unknown> = Promise.resolve(); // the last batch

  // What the queue was handed counts as memory: two batches of `pace` are on their way at most.
  constructor(buffers: Buffers, pipelines: Pipelines, pace: LoadPace) {
    this.#buffers = buffers;
    this.#pipelines = pipelines;
    this.#pace = pace;
  }

  // The callback `onBytes` is told of every piece that was handed to the GPU.
  begin(onBytes: (bytes: number) => void): void {
    this.#onBytes = onBytes;
    this.#isFull = false;
    this.#refusal = "";
  }

  // Runs `command`, which makes or writes something, and has the device asked whether it did.
  // Nobody waits for the answer before checkDone(): it comes behind all that was sent.
  watched<T>(command: () => T): T {
    const { device } = this.#buffers.gpu;
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("validation"); // what uses a buffer that has no memory
    try {
      return command();
    } finally {
      const answers = [device.popErrorScope(), device.popErrorScope()] as const;
      this.#answers = Promise.all(answers).then(
        ([invalid, lack]) => {
          this.#isFull ||= lack !== null;
          this.#refusal ||= invalid?.message ?? "";
        },
        () => undefined, // the device was lost: the caller looks at that
      );
    }
  }

  // Throws EngineError where the device did not do something since begin().
  async checkDone(what: string): Promise<void> {
    await this.#answers;
    if (this.#isFull) {
      throw new EngineError("out_of_memory", `${what}: the GPU has no memory left.`);
    }
    if (this.#refusal === "") return;
    throw new EngineError("unavailable", `${what}: the GPU refused it: ${this.#refusal}`);
  }

  // REQUIRES: the matrix was made for `spec`.
  async fill(matrix: Matrix, spec: MatrixSpec, source: WeightSource): Promise<void> {
    for (const piece of piecesOf(spec, matrix)) {
      const { weight } = piece.section;
      const perRow = rowBytes(weight.dtype, columnsOf(weight));
      const { blocks } = matrix;
      const dataWords = blocks * pieceWordsOf(matrix.dtype) * kGroupRows * 4;
      const data = new WeightArray(source, weight.data);
      const { data: target, scale, zeroBase } = piece.slab;
      await this.#fillArray(piece, data, perRow.data, target, [
        { kind: RepackKind.data, words: dataWords, base: 0 },
      ]);
      if (!scale) continue;
      const scales = new WeightArray(source, weight.scale);
      const forms = isSuperblockFormat(matrix.dtype)
        ? superblockForms(matrix, zeroBase)
        : [{ kind: RepackKind.scales, words: 4 * blocks, base: 0 }];
      await this.#fillArray(piece, scales, perRow.scale, scale, forms);
      if (weight.zero.length === 0) continue;
      const zeros = new WeightArray(source, weight.zero);
      await this.#fillArray(piece, zeros, perRow.zero, scale, [
        { kind: RepackKind.zeros, words: blocks, base: zeroBase },
      ]);
    }
  }

  async #fillArray(
    { section, firstLocal, count, firstOut, step }: Piece,
    array: WeightArray,
    bytesOfRow: number,
    target: GPUBuffer,
    forms: readonly ArrayForm[],
  ): Promise<void> {
    const perChunk = Math.max(1, Math.floor(kStagingBytes / (bytesOfRow * kGroupRows)));
    const { kind, words, base } = forms[0]!;
    const isPlain = kind === RepackKind.data && words * 4 === bytesOfRow * kGroupRows;
    for (let done = 0; done < count; done += perChunk) {
      const groups = Math.min(perChunk, count - done);
      const firstRow = (firstLocal + done) * kGroupRows;
      const rows = Math.min(groups * kGroupRows, section.rows - firstRow);
      const at = (section.firstRow + firstRow) * bytesOfRow;
      const pieces = array.pieces(at, rows * bytesOfRow);
      const firstGroup = firstOut + done * step;
      if (isPlain && step === 1) {
        await this.#write(pieces, target, 4 * (base + firstGroup * words)); // the rest stays zero
        continue;
      }
      await this.#write(pieces, this.#stagingOf(rows * bytesOfRow), 0);
      // Whole groups: words of four at a time.
      const isWhole = isPlain && rows === groups * kGroupRows;
      for (const form of forms) {
        const threads = isWhole ? (groups * form.words) / 4 : groups * form.words;
        const workgroups = Math.ceil(threads / kThreads);
        const x = Math.min(workgroups, kMaxWorkgroups);
        const kernel = isWhole ? interleaveKernel() : repackKernel();
        await this.#run(kernel, target, [x, Math.ceil(workgroups / x)], {
          kind: form.kind,
          recordBytes: isSuperblockFormat(section.weight.dtype)
            ? recordBytesOf(section.weight.dtype)
            : 0,
          rowBytes: bytesOfRow,
          rows,
          words: form.words,
          outBase: form.base + firstGroup * form.words,
          groupStep: step,
          groups,
          threadsX: x * kThreads,
        });
      }
    }
  }

  async #write(
    pieces: AsyncIterable<Uint8Array<ArrayBuffer>>,
    target: GPUBuffer,
    offset: number,
  ): Promise<void> {
    const { device } = this.#buffers.gpu;
    let at = offset;
    for await (const piece of pieces) {
      this.watched(() => write(device, target, at, piece));
      at += piece.length;
      this.#onBytes(piece.length);
      this.#handedBytes += piece.length;
      if (this.#handedBytes >= this.#pace.batchBytes) await this.#endBatch();
    }
  }

  async #endBatch(): Promise<void> {
    const { queue } = this.#buffers.gpu.device;
    queue.submit([]); // what was written is on its way
    const before = this.#underWay;
    this.#underWay = queue.onSubmittedWorkDone();
    this.#underWay.catch(() => undefined); // the device was lost: the caller looks at that
    this.#handedBytes = 0;
    await before.catch(() => undefined);
  }

  // What was written to the staging buffer goes to the matrix. The queue keeps the order: the next
  // piece overwrites it behind this.
  async #run(
    kernel: Variant,
    target: GPUBuffer,
    grid: readonly [number, number],
    params: RepackParams,
  ): Promise<void> {
    const { device } = this.#buffers.gpu;
    const pipeline = await this.#pipelines.get(kernel);
    this.watched(() => {
      const usage = Usage.uniform | Usage.copyTo;
      this.#params ??= this.#buffers.make("repack", "scratch", kParamBytes, usage);
      device.queue.writeBuffer(this.#params, 0, repackOp.bytes(params));
      const bound = new Map<number, GPUBuffer>([
        [Binding.op, this.#params],
        [Binding.vectors, this.#staging!],
        [Binding.kv, target],
      ]);
      const group = device.createBindGroup({
        layout: this.#pipelines.groupLayout(kernel),
        entries: [...bound].map(([binding, buffer]) => ({ binding, resource: { buffer } })),
      });
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...grid);
      pass.end();
      device.queue.submit([encoder.finish()]);
    });
  }

  #stagingOf(byteCount: number): GPUBuffer {
    if (this.#staging && this.#staging.size >= byteCount) return this.#staging;
    if (this.#staging) this.#buffers.free(this.#staging);
    const usage = Usage.storage | Usage.copyTo;
    const size = Math.max(byteCount, Math.min(kStagingBytes, 4 * byteCount));
    this.#staging = this.watched(() => this.#buffers.make("staging", "scratch", size, usage));
    return this.#staging;
  }

  // Frees what loading needed; the device keeps it until the GPU has taken all of it.
  async finish(): Promise<void> {
    await this.#endBatch();
    if (this.#staging) this.#buffers.free(this.#staging);
    this.#staging = null;
  }
}
