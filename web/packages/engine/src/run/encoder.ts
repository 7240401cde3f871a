// Runs dispatches on the queue: an encoder, a pass and a command buffer a call, nothing else. The
// switch `reuse` exists for measurement only: off, every dispatch gets a uniform buffer and a bind
// group of its own, as frameworks do that re-create them (weinfer-webgpu 4.2).
import { Usage } from "../gpu/buffers.ts";
import { Binding } from "../kernels/common/bindings.ts";
import type { Dispatch, StepShape } from "../dispatch/dispatch.ts";

export interface Work {
  readonly dispatches: readonly Dispatch[];
  readonly shape: StepShape;
}

export interface BufferCopy {
  readonly from: GPUBuffer;
  readonly fromByte: number;
  readonly to: GPUBuffer;
  readonly toByte: number;
  readonly byteCount: number;
}

export class Encoder {
  readonly #device: GPUDevice;
  reuse = true;
  dispatchCount = 0; // since the engine was made
  #doomed: GPUBuffer[] = [];

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  submit(
    works: readonly Work[],
    copies: readonly BufferCopy[],
    before?: (encoder: GPUCommandEncoder) => void,
  ): void {
    const encoder = this.#device.createCommandEncoder();
    before?.(encoder);
    const pass = encoder.beginComputePass();
    for (const { dispatches, shape } of works) {
      for (const dispatch of dispatches) {
        if (dispatch.when(shape)) this.#encode(pass, dispatch, shape);
      }
    }
    pass.end();
    for (const { from, fromByte, to, toByte, byteCount } of copies) {
      encoder.copyBufferToBuffer(from, fromByte, to, toByte, byteCount);
    }
    this.#device.queue.submit([encoder.finish()]);
    for (const buffer of this.#doomed) buffer.destroy();
    this.#doomed = [];
  }

  #encode(pass: GPUComputePassEncoder, dispatch: Dispatch, shape: StepShape): void {
    const [x, y, z] = dispatch.grid(shape);
    pass.setPipeline(dispatch.pipeline);
    pass.setBindGroup(0, this.reuse ? dispatch.group : this.#freshGroup(dispatch));
    pass.dispatchWorkgroups(x, y, z);
    ++this.dispatchCount;
  }

  #freshGroup({ layout, entries, params }: Dispatch): GPUBindGroup {
    const usage = Usage.uniform | Usage.copyTo;
    const buffer = this.#device.createBuffer({ size: params.length, usage });
    this.#device.queue.writeBuffer(buffer, 0, params);
    this.#doomed.push(buffer);
    return this.#device.createBindGroup({
      layout,
      entries: entries.map((entry) =>
        entry.binding === Binding.op ? { ...entry, resource: { buffer } } : entry,
      ),
    });
  }
}
