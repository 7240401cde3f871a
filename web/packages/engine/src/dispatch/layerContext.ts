// What the operations of one layer need to become dispatches: where its buffers, weights and keys
// and values lie.
import { RowsAt } from "../kernels/common/numbers.ts";
import type { Place } from "../kernels/common/op.ts";
import type { Arithmetic } from "../kernels/product/arithmetic.ts";
import type { MatMul, MoeExperts, QkNormRope, View } from "../program/ir.ts";
import { endsInLogits } from "../program/ir.ts";
import type { Matrix } from "../weights/matrix.ts";
import { padded, rowsOfLayer } from "./layout.ts";
import type { Layout } from "./layout.ts";
import type { ExpertBlock, LoadedLayer } from "./loadedLayer.ts";
import { buffersOf, outputIsInput } from "./residual.ts";

export interface LayerOptions {
  readonly kvIsF32: boolean;
  readonly arithmetic: Arithmetic;
  readonly stateLayer: number;
  readonly isRoomy: boolean; // 32 KiB of workgroup memory are there
}

export class LayerContext {
  readonly layer: LoadedLayer;
  readonly layout: Layout;
  readonly kv: GPUBuffer | null;
  readonly kvIsF32: boolean;
  readonly arithmetic: Arithmetic;
  readonly stateLayer: number; // among the loaded layers with state; -1: it has none
  readonly isRoomy: boolean;
  readonly rowsAt: number;
  readonly isHead: boolean;
  readonly #places: Place[] = [];
  readonly #ropeColumns: ReadonlyMap<string, number>;

  constructor(
    layer: LoadedLayer,
    layout: Layout,
    kv: GPUBuffer | null,
    { kvIsF32, arithmetic, stateLayer, isRoomy }: LayerOptions,
    ropeColumns: ReadonlyMap<string, number>,
  ) {
    this.layer = layer;
    this.layout = layout;
    this.kv = kv;
    this.kvIsF32 = kvIsF32;
    this.arithmetic = arithmetic;
    this.stateLayer = stateLayer;
    this.isRoomy = isRoomy;
    this.#ropeColumns = ropeColumns;
    const { program } = layer;
    this.isHead = endsInLogits(program);
    this.rowsAt = this.isHead ? RowsAt.head : RowsAt.body;
    const rows = rowsOfLayer(program, layout);
    const aliased = outputIsInput(program, layer.fused);
    const used = buffersOf(layer.fused);
    let base = layout.privateBase;
    for (const [id, { columns }] of program.buffers.entries()) {
      this.#places.push({ base, stride: padded(columns) });
      if (used.has(id)) base += rows * padded(columns);
      if (id === program.input) {
        this.#places[id] = this.isHead ? layout.headInput : layout.residual;
      } else if (id === program.output && this.isHead) {
        this.#places[id] = layout.logits;
      } else if (id === program.output && aliased) {
        this.#places[id] = layout.residual;
      }
    }
  }

  get vectors(): GPUBuffer {
    return this.layer.vectors;
  }

  get unaliasedOutput(): Place | null {
    const place = this.#places[this.layer.program.output]!;
    const isResidual = place === this.layout.residual || place === this.layout.logits;
    return isResidual ? null : place;
  }

  place(view: View): Place {
    const { base, stride } = this.#places[view.buffer]!;
    return { base: base + view.firstColumn, stride };
  }

  // First value of a weight that is read as a vector.
  vector(weight: number): number {
    return this.layer.firstOf.get(weight)!;
  }

  matrixOf(matmul: MatMul): Matrix {
    return this.layer.matrices.get(matmul)!;
  }

  expertBlocks(op: MoeExperts): readonly ExpertBlock[] {
    return this.layer.expertBlocks.get(op)!;
  }

  // First column of the rotation's frequencies in the step's table.
  ropeColumn(rope: QkNormRope): number {
    return this.#ropeColumns.get(this.layer.ropeKeys.get(rope)!)!;
  }
}
