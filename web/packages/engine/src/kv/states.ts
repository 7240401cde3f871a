// Recurrent state on the GPU: one buffer a layer, in slots of one state each. A state is never
// written over: a run reads the slot of its first position and writes another one, which takes its
// place when the step is kept. A slot is free when no session, mark or fork names it any more.
// Which positions a session may go back to: stage/sessionTable.ts.
import { EngineError } from "../base/error.ts";
import { Usage } from "../gpu/buffers.ts";
import type { Buffers } from "../gpu/buffers.ts";
import { LayerChain, StateChain } from "./stateChain.ts";
import type { SlotPool } from "./stateChain.ts";
import { kNone } from "../kernels/common/op.ts";
import { dropMarks } from "../stage/marks.ts";
import type { LayerRange, Run, SessionFork } from "../stage/stageEngine.ts";

const kMinSlots = 2;
const kUsage = Usage.storage | Usage.copyFrom | Usage.copyTo;

interface Held {
  readonly length: number;
  readonly slot: number; // of the state at `length`
  readonly marks: ReadonlyMap<number, number>; // position -> slot
}

interface Layer {
  readonly floats: number;
  buffer: GPUBuffer;
  free: number[];
  readonly uses: number[]; // of every slot
  readonly sessions: Map<number, Held>;
}

// Slots of a step's runs, by layer and in order of the runs.
export interface StateSlots {
  readonly before: readonly number[]; // kNone: zeros
  readonly after: readonly number[];
}

// As kv/pages.ts's Append: it may count before it is kept or dropped.
export interface StateAppend {
  readonly slots: ReadonlyMap<number, StateSlots>; // by layer
  count(): void;
  keep(): void;
  drop(): void;
}

// What a session held, and what it holds now. One of both is let go in the end.
interface Change {
  readonly layer: Layer;
  readonly session: number;
  readonly before: Held | undefined;
  readonly added: readonly number[]; // slots that it uses now, once a use
  readonly replaced: readonly number[]; // slots that it used before
}

export class States {
  readonly #buffers: Buffers;
  readonly #layers = new Map<number, Layer>();

  constructor(buffers: Buffers) {
    this.#buffers = buffers;
  }

  get layers(): number[] {
    return [...this.#layers.keys()].sort((a, b) => a - b);
  }

  // Which of the layers with state it is, as the kernels count them.
  indexOf(layer: number): number {
    return this.layers.indexOf(layer);
  }

  buffer(layer: number): GPUBuffer | null {
    return this.#layers.get(layer)?.buffer ?? null;
  }

  add(layer: number, floats: number): void {
    const buffer = this.#make(layer, kMinSlots * floats);
    const free = Array.from({ length: kMinSlots }, (_, i) => kMinSlots - 1 - i);
    this.#layers.set(layer, { floats, buffer, free, uses: [], sessions: new Map() });
  }

  remove(layer: number): void {
    const known = this.#layers.get(layer);
    if (known) this.#buffers.free(known.buffer);
    this.#layers.delete(layer);
  }

  #make(layer: number, floats: number): GPUBuffer {
    const { bindingBytes } = this.#buffers.gpu.limits;
    if (4 * floats > bindingBytes) {
      throw new EngineError(
        "out_of_memory",
        `The states of layer ${layer} would take ${4 * floats} bytes; this device binds at most ` +
          `${bindingBytes}.`,
      );
    }
    return this.#buffers.make(`state of layer ${layer}`, "kv", 4 * floats, kUsage);
  }

  // Makes room for the runs. True when a buffer is another one now, which bind groups must follow.
  reserve(range: LayerRange, runCount: number): boolean {
    return this.#reserve(range, () => runCount);
  }

  // The same for a run that makes tokens ahead with so many slots.
  reserveChain(range: LayerRange, run: Run, slotCount: number): boolean {
    return this.#reserve(range, (layer) => slotsOfChain(layer, run, slotCount));
  }

  #reserve({ first, end }: LayerRange, countOf: (layer: Layer) => number): boolean {
    let changed = false;
    for (const [index, layer] of this.#layers) {
      const missing = countOf(layer) - layer.free.length;
      if (index < first || index >= end || missing <= 0) continue;
      this.#grow(index, layer, missing);
      changed = true;
    }
    return changed;
  }

  #grow(index: number, layer: Layer, missing: number): void {
    const slots = layer.buffer.size / (4 * layer.floats);
    const larger = this.#make(index, (slots + missing) * layer.floats);
    const { device } = this.#buffers.gpu;
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(layer.buffer, 0, larger, 0, layer.buffer.size);
    device.queue.submit([encoder.finish()]);
    this.#buffers.free(layer.buffer);
    layer.buffer = larger;
    for (let slot = slots + missing - 1; slot >= slots; --slot) layer.free.push(slot);
  }

  // REQUIRES: reserve() and SessionTable.check() of the same runs.
  begin({ first, end }: LayerRange, runs: readonly Run[]): StateAppend {
    const slots = new Map<number, StateSlots>();
    for (const [index, layer] of this.#layers) {
      if (index < first || index >= end) continue;
      const before = runs.map((run) => slotAt(layer, run));
      const after = runs.map(() => take(layer));
      slots.set(index, { before, after });
    }
    let changes: Change[] | null = null;
    const count = (): void => {
      changes ??= [...slots].flatMap(([index, { after }]) =>
        runs.map((run, i) => hold(this.#layers.get(index)!, run, after[i]!)),
      );
    };
    return {
      slots,
      count,
      keep: () => {
        count();
        for (const { layer, replaced } of changes!) {
          for (const slot of replaced) drop(layer, slot);
        }
      },
      drop: () => {
        for (const change of changes ?? []) takeBack(change);
        if (changes) return;
        for (const [index, { after }] of slots) {
          for (const slot of after) drop(this.#layers.get(index)!, slot);
        }
      },
    };
  }

  // The states of a run that makes tokens ahead; null where no layer of the range has any.
  // REQUIRES: SessionTable took the run, reserveChain().
  chain({ first, end }: LayerRange, run: Run, slotCount: number): StateChain | null {
    const chains = new Map<number, LayerChain>();
    for (const [index, layer] of this.#layers) {
      if (index < first || index >= end) continue;
      const pool: SlotPool = {
        take: () => take(layer),
        use: (slot) => ++layer.uses[slot]!,
        drop: (slot) => drop(layer, slot),
        isUsedOnce: (slot) => layer.uses[slot] === 1,
      };
      const settle = (done: number, state: number): void => {
        const { replaced } = hold(layer, { ...run, count: done, marks: 0 }, state);
        for (const slot of replaced) drop(layer, slot);
      };
      const count = slotsOfChain(layer, run, slotCount);
      chains.set(index, new LayerChain(pool, slotAt(layer, run), count, settle));
    }
    return chains.size > 0 ? new StateChain(chains) : null;
  }

  // REQUIRES: SessionTable took it.
  truncate(session: number, position: number): void {
    for (const layer of this.#layers.values()) {
      const held = layer.sessions.get(session);
      if (!held || position >= held.length) continue;
      const cut = cutTo(layer, held, position);
      release(layer, held);
      if (cut) layer.sessions.set(session, cut);
      else layer.sessions.delete(session);
    }
  }

  // REQUIRES: SessionTable took it.
  fork({ first, end }: LayerRange, { from, to, positionCount }: SessionFork): void {
    for (const [index, layer] of this.#layers) {
      if (index < first || index >= end) continue;
      const cut = cutTo(layer, layer.sessions.get(from)!, positionCount);
      const old = layer.sessions.get(to);
      if (old) release(layer, old);
      layer.sessions.set(to, cut!);
    }
  }

  release(session: number): void {
    for (const layer of this.#layers.values()) {
      const held = layer.sessions.get(session);
      if (held) release(layer, held);
      layer.sessions.delete(session);
    }
  }

  releaseAll(): void {
    for (const layer of this.#layers.values()) {
      for (const session of [...layer.sessions.keys()]) this.release(session);
    }
  }
}

function take(layer: Layer): number {
  const slot = layer.free.pop()!;
  layer.uses[slot] = 1;
  return slot;
}

function drop(layer: Layer, slot: number): void {
  if (--layer.uses[slot]! === 0) layer.free.push(slot);
}

function release(layer: Layer, { slot, marks }: Held): void {
  drop(layer, slot);
  for (const marked of marks.values()) drop(layer, marked);
}

// The session holds what the run leaves in `slot`, and marks where it asks for one.
function hold(layer: Layer, run: Run, slot: number): Change {
  const before = layer.sessions.get(run.session);
  const added = [slot];
  const replaced = before ? [before.slot] : [];
  const marks = new Map<number, number>();
  for (const [position, marked] of before?.marks ?? []) {
    if (position <= run.firstPosition) marks.set(position, marked);
    else replaced.push(marked);
  }
  const length = run.firstPosition + run.count;
  if (run.marks) {
    marks.set(length, slot);
    ++layer.uses[slot]!;
    added.push(slot);
    for (const position of dropMarks([...marks.keys()].sort((a, b) => a - b), run.marks)) {
      replaced.push(marks.get(position)!);
      marks.delete(position);
    }
  }
  layer.sessions.set(run.session, { length, slot, marks });
  return { layer, session: run.session, before, added, replaced };
}

function takeBack({ layer, session, before, added }: Change): void {
  if (before) layer.sessions.set(session, before);
  else layer.sessions.delete(session);
  for (const slot of added) drop(layer, slot);
}

// The slot that a run begins with.
function slotAt(layer: Layer, { session, firstPosition }: Run): number {
  if (firstPosition === 0) return kNone;
  const held = layer.sessions.get(session)!;
  return firstPosition === held.length ? held.slot : held.marks.get(firstPosition)!;
}

// How many of the slots of a run that makes tokens ahead are to be found for it: the state that it
// begins with becomes one of them, but not a mark, which stays, nor what others began with.
function slotsOfChain(layer: Layer, run: Run, slotCount: number): number {
  const held = layer.sessions.get(run.session);
  const isOwn = held !== undefined && held.length === run.firstPosition;
  return isOwn && layer.uses[held.slot] === 1 ? slotCount - 1 : slotCount;
}

// What is left of `held` at `position`, with uses of its own; null at 0.
function cutTo(layer: Layer, held: Held, position: number): Held | null {
  if (position === 0) return null;
  const slot = position === held.length ? held.slot : held.marks.get(position)!;
  const marks = new Map([...held.marks].filter(([mark]) => mark <= position));
  for (const used of [slot, ...marks.values()]) ++layer.uses[used]!;
  return { length: position, slot, marks };
}
