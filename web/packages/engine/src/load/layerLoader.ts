// Brings layers onto the GPU: program, vectors, matrices. Matrices that two layers share (tied
// embeddings) are held once. What fails leaves nothing behind.
import { EngineError } from "../base/error.ts";
import type { Buffers } from "../gpu/buffers.ts";
import { Usage } from "../gpu/buffers.ts";
import type { LoadPace } from "../gpu/loadPace.ts";
import type { Pipelines } from "../gpu/pipelines.ts";
import { fuse } from "../dispatch/fuse.ts";
import type { Fused } from "../dispatch/fuse.ts";
import type { ExpertBlock, LoadedLayer } from "../dispatch/loadedLayer.ts";
import { scheduled } from "../dispatch/schedule.ts";
import { decodeProgram } from "../program/decode.ts";
import {
  DType,
  endsInLogits,
  findAttention,
  isSuperblockFormat,
  outColumnsOf,
} from "../program/ir.ts";
import type { Embed, MatMul, MoeExperts, Program, QkNormRope, Weight } from "../program/ir.ts";
import type { Ropes } from "../run/ropes.ts";
import type { WeightSource } from "../stage/stageEngine.ts";
import {
  freeMatrix,
  groupsOf,
  kGroupRows,
  makeMatrix,
  matrixBytes,
  matrixDataBytes,
  matrixKey,
} from "../weights/matrix.ts";
import type { Matrix, MatrixSpec, Section } from "../weights/matrix.ts";
import { Uploader } from "../weights/upload.ts";
import { readValues, readVectors } from "../weights/vectors.ts";

// A query in workgroup memory (attention.wgsl), and a thread for each pair of value columns.
const kMaxHeadColumns = 576;
const kMaxValueColumns = 512;
const kWholeRows = (weight: Weight): MatrixSpec => ({
  sections: [{ weight, firstRow: 0, rows: weight.shape[0]! }],
  paired: false,
});

export class LayerLoader {
  readonly #buffers: Buffers;
  readonly #ropes: Ropes;
  readonly #uploader: Uploader;
  readonly #matrices = new Map<string, { matrix: Matrix; users: number }>();
  #last: Promise<unknown> = Promise.resolve(); // load

  constructor(buffers: Buffers, pipelines: Pipelines, ropes: Ropes, pace: LoadPace) {
    this.#buffers = buffers;
    this.#ropes = ropes;
    this.#uploader = new Uploader(buffers, pipelines, pace);
  }

  // Layers are loaded one after the other, whoever asks.
  #inTurn<T>(load: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(load);
    this.#last = mine.catch(() => undefined);
    return mine;
  }

  // The callback `onBytes` is told of every piece of a matrix that has reached the GPU.
  load(
    index: number,
    source: WeightSource,
    onBytes: (bytes: number) => void,
  ): Promise<LoadedLayer> {
    return this.#inTurn(() => this.#load(index, source, onBytes));
  }

  async #load(
    index: number,
    source: WeightSource,
    onBytes: (bytes: number) => void,
  ): Promise<LoadedLayer> {
    const digest = source.layerProgram(index);
    if (digest === "") {
      throw new EngineError("unsupported", `Layer ${index} of the package has no program.`);
    }
    const program = decodeProgram(await source.readBlob(digest));
    checkRunnable(program, index, this.#buffers.gpu.hasIntegerDots);
    const layer = await this.#loadProgram(program, source, onBytes);
    await source.loaded(index);
    return layer;
  }

  // A valid program, whose weights are in the source.
  loadProgram(
    program: Program,
    source: WeightSource,
    onBytes: (bytes: number) => void,
  ): Promise<LoadedLayer> {
    return this.#inTurn(async () => {
      checkRunnable(program, program.layerIndex, this.#buffers.gpu.hasIntegerDots);
      return await this.#loadProgram(program, source, onBytes);
    });
  }

  async #loadProgram(
    written: Program,
    source: WeightSource,
    onBytes: (bytes: number) => void,
  ): Promise<LoadedLayer> {
    this.#uploader.begin(onBytes);
    const program = scheduled(written);
    const fused = fuse(program);
    this.#checkMemory(program, fused);
    const used: Matrix[] = [];
    let vectors: GPUBuffer | null = null;
    try {
      const read = await readVectors(program, source);
      const usage = Usage.storage | Usage.copyTo;
      vectors = this.#uploader.watched(() => {
        const made = this.#buffers.make("vectors", "weights", read.values.byteLength, usage);
        this.#buffers.gpu.device.queue.writeBuffer(made, 0, read.values);
        return made;
      });
      const matrices = await this.#loadMatrices(program, fused, source, used);
      const ropeKeys = await this.#loadRopes(program, source);
      await this.#uploader.checkDone(`Loading layer ${program.layerIndex}`);
      return {
        index: program.layerIndex,
        program,
        fused,
        attention: findAttention(program),
        vectors,
        firstOf: read.firstOf,
        ...matrices,
        ropeKeys,
      };
    } catch (error) {
      for (const matrix of used) this.#release(matrix);
      if (vectors) this.#buffers.free(vectors);
      throw error;
    } finally {
      await this.#uploader.finish();
    }
  }

  free(layer: LoadedLayer): void {
    this.#buffers.free(layer.vectors);
    for (const matrix of new Set(layer.matrices.values())) this.#release(matrix);
    for (const { gateUp, down } of [...layer.expertBlocks.values()].flat()) {
      this.#release(gateUp);
      this.#release(down);
    }
    for (const table of layer.tables.values()) this.#release(table);
  }

  async #loadMatrices(
    program: Program,
    fused: readonly Fused[],
    source: WeightSource,
    used: Matrix[],
  ): Promise<Pick<LoadedLayer, "matrices" | "expertBlocks" | "tables">> {
    const take = async (spec: MatrixSpec): Promise<Matrix> => {
      const matrix = await this.#take(spec, source);
      used.push(matrix);
      return matrix;
    };
    const matrices = new Map<MatMul, Matrix>();
    const expertBlocks = new Map<MoeExperts, ExpertBlock[]>();
    const tables = new Map<Embed, Matrix>();
    for (const step of fused) {
      if (step.kind === "product") {
        const matrix = await take(productSpec(program, step));
        for (const matmul of step.matmuls) matrices.set(matmul, matrix);
      } else if (step.kind === "single" && step.op.kind === "embed") {
        tables.set(step.op, await take(kWholeRows(program.weights[step.op.weight]!)));
      } else if (step.kind === "experts") {
        const blocks: ExpertBlock[] = [];
        for (const specs of blockSpecs(program, step.op, this.#buffers.gpu.limits.bindingBytes)) {
          const gateUp = await take(specs.gateUp);
          blocks.push({ ...specs, gateUp, down: await take(specs.down) });
        }
        expertBlocks.set(step.op, blocks);
      }
    }
    return { matrices, expertBlocks, tables };
  }

  async #take(spec: MatrixSpec, source: WeightSource): Promise<Matrix> {
    const key = matrixKey(spec);
    const held = this.#matrices.get(key);
    if (held) {
      ++held.users;
      return held.matrix;
    }
    const matrix = this.#uploader.watched(() => makeMatrix(this.#buffers, spec));
    try {
      await this.#uploader.fill(matrix, spec, source);
    } catch (error) {
      freeMatrix(this.#buffers, matrix);
      throw error;
    }
    this.#matrices.set(key, { matrix, users: 1 });
    return matrix;
  }

  #release(matrix: Matrix): void {
    const held = this.#matrices.get(matrix.key);
    if (!held || --held.users > 0) return;
    freeMatrix(this.#buffers, matrix);
    this.#matrices.delete(matrix.key);
  }

  // Fails before anything is allocated or downloaded.
  #checkMemory(program: Program, fused: readonly Fused[]): void {
    let bytes = 0;
    const add = (spec: MatrixSpec): void => {
      if (!this.#matrices.has(matrixKey(spec))) bytes += matrixBytes(spec);
    };
    for (const step of fused) {
      if (step.kind === "product") add(productSpec(program, step));
      else if (step.kind === "single" && step.op.kind === "embed") {
        add(kWholeRows(program.weights[step.op.weight]!));
      } else if (step.kind === "experts") {
        const { gateUp, down } = expertSpecs(program, step.op, 0, step.op.experts);
        add(gateUp);
        add(down);
      }
    }
    if (this.#buffers.fits(bytes)) return;
    throw new EngineError(
      "out_of_memory",
      `Layer ${program.layerIndex} needs ${bytes} bytes for its weights beside ` +
        `${this.#buffers.bytes("weights")} bytes of weights and ${this.#buffers.bytes("kv")} of ` +
        `keys and values: more than the offer.`,
    );
  }

  async #loadRopes(program: Program, source: WeightSource): Promise<Map<QkNormRope, string>> {
    const keys = new Map<QkNormRope, string>();
    for (const op of program.ops) {
      if (op.kind !== "qkNormRope" || !op.rope) continue;
      const frequencies = await readValues(program.weights[op.rope.invFreq]!, source);
      keys.set(op, this.#ropes.add(frequencies));
    }
    return keys;
  }
}

function productSpec(program: Program, product: Extract<Fused, { kind: "product" }>): MatrixSpec {
  const paired = product.paired !== null;
  const sections: Section[] = [];
  for (const { weight: view } of product.matmuls) {
    const weight = program.weights[view.weight]!;
    const last = sections.at(-1);
    // Rows of heads that follow each other are read at once.
    const goesOn =
      last?.weight === weight &&
      last.firstRow + last.rows === view.firstRow &&
      last.rows % kGroupRows === 0;
    if (goesOn && !paired) sections[sections.length - 1] = { ...last, rows: last.rows + view.rows };
    else sections.push({ weight, firstRow: view.firstRow, rows: view.rows });
  }
  if (!product.heads) return { sections, paired };
  return { sections, paired, unitGroups: groupsOf(product.matmuls[0]!.weight.rows) };
}

interface ExpertSpecs {
  readonly gateUp: MatrixSpec;
  readonly down: MatrixSpec;
}

// A block has as many experts as fit a binding, and at least one.
function blockSpecs(
  program: Program,
  op: MoeExperts,
  bindingBytes: number,
): (ExpertSpecs & { firstExpert: number; expertCount: number })[] {
  const { gateUp, down } = expertSpecs(program, op, 0, 1);
  const bytes = Math.max(matrixDataBytes(gateUp), matrixDataBytes(down));
  const most = Math.max(1, Math.floor(bindingBytes / bytes));
  const blocks = [];
  for (let firstExpert = 0; firstExpert < op.experts; firstExpert += most) {
    const expertCount = Math.min(most, op.experts - firstExpert);
    const specs = expertSpecs(program, op, firstExpert, firstExpert + expertCount);
    blocks.push({ firstExpert, expertCount, ...specs });
  }
  return blocks;
}

// Experts [first, end): each one's gate and up groups alternate where it has a gate, its down rows
// begin with a group of their own.
function expertSpecs(program: Program, op: MoeExperts, first: number, end: number): ExpertSpecs {
  const gateUp = program.weights[op.gateUp]!;
  const down = program.weights[op.down]!;
  const [, columns, width] = down.shape as readonly [number, number, number];
  const rows = gateUp.shape[1]!;
  const ups = [];
  const downs = [];
  for (let expert = first; expert < end; ++expert) {
    for (let row = 0; row < rows; row += width) {
      ups.push({ weight: gateUp, firstRow: expert * rows + row, rows: width });
    }
    downs.push({ weight: down, firstRow: expert * columns, rows: columns });
  }
  return {
    gateUp: { sections: ups, paired: rows > width },
    down: { sections: downs, paired: false },
  };
}

// Products of superblocks are whole numbers, and rows of q4s are not looked up.
function checkSuperblocks(program: Program, what: string, hasIntegerDots: boolean): void {
  const refused = (id: number, why: string): EngineError =>
    new EngineError(
      "unsupported",
      `${what} has weight '${program.weights[id]!.name}' in superblocks, ${why}.`,
    );
  const first = program.weights.findIndex(({ dtype }) => isSuperblockFormat(dtype));
  if (first >= 0 && !hasIntegerDots) {
    throw refused(first, "and this browser's WebGPU has no packed integer products");
  }
  for (const op of program.ops) {
    if (op.kind === "embed" && program.weights[op.weight]!.dtype === DType.q4s) {
      throw refused(op.weight, "and in q4s no rows are looked up");
    }
  }
}

// What this engine does not run, said before anything is loaded.
function checkRunnable(program: Program, index: number, hasIntegerDots: boolean): void {
  const what = `The program of layer ${index}`;
  if (program.layerIndex !== index) {
    throw new EngineError("invalid_data", `${what} says that it is layer ${program.layerIndex}.`);
  }
  checkSuperblocks(program, what, hasIntegerDots);
  const attention = findAttention(program);
  if (endsInLogits(program) && program.ops.some((op) => op.kind === "exchange")) {
    throw new EngineError(
      "unsupported",
      `${what} has an exchange in the output head, whose rows are not those of the step.`,
    );
  }
  if (attention && endsInLogits(program)) {
    throw new EngineError("unsupported", `${what} has attention in the output head.`);
  }
  for (const op of program.ops) {
    if (op.kind === "attention" && outColumnsOf(op) > kMaxValueColumns) {
      throw new EngineError(
        "unsupported",
        `${what} has values of ${outColumnsOf(op)} columns; at most ${kMaxValueColumns} are run.`,
      );
    }
    if (op.kind === "attention" && op.valueColumns > 0) {
      // Pages hold columns in pairs.
      if (op.headColumns % 2 !== 0 || op.valueColumns % 2 !== 0) {
        throw new EngineError("unsupported", `${what} has keys and values of odd columns in one.`);
      }
    }
    const isHeads = op.kind === "qkNormRope" || op.kind === "attention";
    if (!isHeads || op.headColumns <= kMaxHeadColumns) continue;
    throw new EngineError(
      "unsupported",
      `${what} has heads of ${op.headColumns} columns; at most ${kMaxHeadColumns} are run.`,
    );
  }
}
