// An exchange in the middle of a step: rows of one view are read back and given away, and what
// comes for them is written into another view.
import { EngineError } from "../base/error.ts";
import type { ExchangePoint } from "../dispatch/layer.ts";
import { countNonFinite } from "../sampling/selectTop.ts";
import type { StepInput } from "../stage/stageEngine.ts";
import type { BufferCopy } from "./encoder.ts";
import type { Machine } from "./machine.ts";

type Exchanger = NonNullable<StepInput["exchange"]>;

// Rows of the step that the pass in hand holds.
export interface PassRows {
  readonly first: number;
  readonly count: number;
}

export class ExchangeRun {
  readonly #machine: Machine;
  readonly #point: ExchangePoint;
  readonly #rows: PassRows;
  readonly #target: GPUBuffer;
  readonly #byteCount: number;

  constructor(machine: Machine, point: ExchangePoint, rows: PassRows) {
    this.#machine = machine;
    this.#point = point;
    this.#rows = rows;
    this.#byteCount = 4 * ((rows.count - 1) * point.out.stride + point.outColumns);
    this.#target = machine.staging.take(this.#byteCount);
  }

  // What the submission before the exchange copies.
  get copy(): BufferCopy {
    const { act } = this.#machine;
    const fromByte = 4 * this.#point.out.base;
    return { from: act, fromByte, to: this.#target, toByte: 0, byteCount: this.#byteCount };
  }

  // REQUIRES: the copy was submitted. Throws EngineError.
  async run(exchange: Exchanger): Promise<void> {
    const { layer, id, out, outColumns, inColumns } = this.#point;
    const { first, count } = this.#rows;
    const bytes = await this.#machine.staging.read(this.#target, this.#byteCount);
    const values = new Float32Array(bytes);
    const given = new Float32Array(count * outColumns);
    for (let row = 0; row < count; ++row) {
      given.set(values.subarray(row * out.stride, row * out.stride + outColumns), row * outColumns);
    }
    const request = { layer, id, firstRow: first, rowCount: count, out: given, inColumns };
    const what = `Exchange ${id} of layer ${layer}`;
    const received = await exchange(request).catch((error: unknown) => {
      if (error instanceof EngineError) throw error;
      const why = error instanceof Error ? error.message : String(error);
      throw new EngineError("unavailable", `${what} failed: ${why}`);
    });
    if (received.length !== count * inColumns) {
      throw new EngineError(
        "invalid_data",
        `${what} brought ${received.length} values; expected ${count} rows of ${inColumns}.`,
      );
    }
    const bad = countNonFinite(received);
    if (bad > 0) {
      throw new EngineError("invalid_data", `${what} brought ${bad} values that are not finite.`);
    }
    this.#write(received);
  }

  #write(received: Float32Array): void {
    const { in: into, inColumns } = this.#point;
    const { queue } = this.#machine.buffers.gpu.device;
    const own = Float32Array.from(received);
    for (let row = 0; row < this.#rows.count; ++row) {
      const to = 4 * (into.base + row * into.stride);
      queue.writeBuffer(this.#machine.act, to, own, row * inColumns, inColumns);
    }
  }
}
