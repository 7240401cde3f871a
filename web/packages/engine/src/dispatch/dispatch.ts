// What a step runs: dispatches whose pipeline, bind group and parameters are made when a layer is
// loaded, so that only a grid is left to find, which depends on the step's shape.
import type { Buffers } from "../gpu/buffers.ts";
import { Usage } from "../gpu/buffers.ts";
import { Binding } from "../kernels/common/bindings.ts";
import type { Pipelines } from "../gpu/pipelines.ts";
import { kParamBytes } from "../kernels/common/op.ts";
import type { Params } from "../kernels/common/op.ts";
import type { Variant } from "../kernels/common/variant.ts";
import { kSplitChunks, kSplitFrom, kSplitRows } from "./layout.ts";

// What a grid may depend on.
export interface StepShape {
  readonly rows: number; // of the body, or of the head for its operations
  readonly chunks: number; // of 256 positions, of the longest session of the step
  readonly runs: number; // sessions with rows in it
  // Every row is the only one of its session: none sees what another one appends.
  readonly isApart?: boolean;
}

export function isSplit({ rows, chunks }: StepShape): boolean {
  return rows <= kSplitRows && chunks >= kSplitFrom && chunks <= kSplitChunks;
}

export type Grid = (shape: StepShape) => readonly [number, number, number];

// Buffers of the bindings that differ from the shared ones.
export type Bound = Partial<
  Record<"vectors" | "data" | "scale" | "kv", GPUBuffer>
>;

export interface Draft {
  readonly variant: Variant;
  readonly params: Params;
  readonly bound: Bound;
  readonly grid: Grid;
  readonly when: (shape: StepShape) => boolean;
}

export interface Dispatch {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
  group: GPUBindGroup;
  entries: GPUBindGroupEntry[];
  readonly params: Params;
  readonly grid: Grid;
  readonly when: (shape: StepShape) => boolean;
}

// The buffers that every dispatch sees.
export interface Shared {
  readonly step: GPUBuffer;
  readonly act: GPUBuffer;
  readonly aux: GPUBuffer;
  readonly unusedRead: GPUBuffer;
  readonly unusedWrite: GPUBuffer;
}

export interface DispatchList {
  readonly dispatches: readonly Dispatch[];
  readonly params: GPUBuffer;
}

// Pipelines, parameters and bind groups of the drafts.
export async function makeDispatches(
  buffers: Buffers,
  pipelines: Pipelines,
  shared: Shared,
  label: string,
  drafts: readonly Draft[],
): Promise<DispatchList> {
  const { device } = buffers.gpu;
  // A driver takes tens of milliseconds a kernel, and compiles several at once.
  const compiled = await Promise.all(drafts.map(({ variant }) => pipelines.get(variant)));
  const usage = Usage.uniform | Usage.copyTo;
  const params = buffers.make(label, "scratch", drafts.length * kParamBytes, usage);
  const dispatches: Dispatch[] = [];
  for (const [index, draft] of drafts.entries()) {
    const offset = index * kParamBytes;
    device.queue.writeBuffer(params, offset, draft.params);
    const op = { buffer: params, offset, size: kParamBytes };
    const { bindings } = draft.variant;
    const entries = entriesOf(shared, draft.bound, op).filter(({ binding }) =>
      bindings.includes(binding),
    );
    const layout = pipelines.groupLayout(draft.variant);
    dispatches.push({
      pipeline: compiled[index]!,
      layout,
      group: device.createBindGroup({ label, layout, entries }),
      entries,
      params: draft.params,
      grid: draft.grid,
      when: draft.when,
    });
  }
  return { dispatches, params };
}

// The dispatch sees `buffer` instead of `old` from now on, if it saw that.
export function rebind(
  device: GPUDevice,
  dispatch: Dispatch,
  old: GPUBuffer,
  buffer: GPUBuffer,
): void {
  const sees = ({ resource }: GPUBindGroupEntry): boolean =>
    "buffer" in resource && resource.buffer === old;
  if (!dispatch.entries.some(sees)) return;
  dispatch.entries = dispatch.entries.map((entry) =>
    sees(entry) ? { ...entry, resource: { buffer } } : entry);
  const { layout, entries } = dispatch;
  dispatch.group = device.createBindGroup({ layout, entries });
}

function entriesOf(shared: Shared, bound: Bound, op: GPUBufferBinding): GPUBindGroupEntry[] {
  const whole = (buffer: GPUBuffer): GPUBufferBinding => ({ buffer });
  return [
    { binding: Binding.step, resource: whole(shared.step) },
    { binding: Binding.op, resource: op },
    { binding: Binding.act, resource: whole(shared.act) },
    { binding: Binding.vectors, resource: whole(bound.vectors ?? shared.unusedRead) },
    { binding: Binding.data, resource: whole(bound.data ?? shared.unusedRead) },
    { binding: Binding.scale, resource: whole(bound.scale ?? shared.unusedRead) },
    { binding: Binding.kv, resource: whole(bound.kv ?? shared.unusedWrite) },
    { binding: Binding.aux, resource: whole(shared.aux) },
  ];
}
