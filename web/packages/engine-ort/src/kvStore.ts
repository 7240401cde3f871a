// The keys and values of all sessions in all layers, as the tensors that onnxruntime takes and
// gives: [1, kv heads, positions, head columns], replaced by every run. How many positions count is
// the session table's; tensors may hold more until the next run trims them.
import type { Tensor } from "onnxruntime-web";

import { EngineError, f16ToF32, f32ToF16 } from "@weft/engine";

import type { FloatType, StateSpec } from "./layerSession.ts";
import type { OrtModule } from "./runtime.ts";

type FloatArray = Float32Array | Uint16Array;

export function elementBytes(type: FloatType): number {
  return type === "float16" ? 2 : 4;
}

// Bytes that one position takes in a layer.
export function positionBytes(states: readonly StateSpec[]): number {
  return states.reduce(
    (sum, state) => sum + state.heads * state.headColumns * elementBytes(state.type),
    0,
  );
}

function tensorBytes(tensor: Tensor): number {
  const elements = tensor.dims.reduce((product, dim) => product * dim, 1);
  return elements * (tensor.type === "float16" ? 2 : 4);
}

export class KvStore {
  readonly #ort: OrtModule;
  readonly #onBytes: (delta: number) => void;
  readonly #sessions = new Map<number, Map<number, Tensor[]>>(); // session, layer
  #bytes = 0;

  // `onBytes` is told of every change of bytes().
  constructor(ort: OrtModule, onBytes: (delta: number) => void) {
    this.#ort = ort;
    this.#onBytes = onBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  // The tensors of exactly the first `length` positions, for a run to take. `owned`: they were made
  // for this call, the caller disposes of them.
  async take(
    session: number,
    layer: number,
    states: readonly StateSpec[],
    length: number,
  ): Promise<{ tensors: Tensor[]; owned: boolean }> {
    const held = this.#sessions.get(session)?.get(layer);
    if (!held || length === 0) {
      return { tensors: states.map((state) => this.#empty(state)), owned: true };
    }
    if (held.every((tensor) => tensor.dims[2] === length)) return { tensors: held, owned: false };
    const tensors: Tensor[] = [];
    for (const [index, state] of states.entries()) {
      tensors.push(await this.#slice(held[index]!, state, 0, length));
    }
    return { tensors, owned: true };
  }

  // Replaces the layer's tensors; the old ones are disposed of.
  put(session: number, layer: number, tensors: Tensor[]): void {
    const layers = this.#sessions.get(session) ?? new Map<number, Tensor[]>();
    this.#sessions.set(session, layers);
    this.#drop(layers.get(layer));
    layers.set(layer, tensors);
    this.#count(tensors.reduce((sum, tensor) => sum + tensorBytes(tensor), 0));
  }

  removeLayer(layer: number): void {
    for (const layers of this.#sessions.values()) {
      this.#drop(layers.get(layer));
      layers.delete(layer);
    }
  }

  release(session: number): void {
    for (const tensors of this.#sessions.get(session)?.values() ?? []) this.#drop(tensors);
    this.#sessions.delete(session);
  }

  releaseAll(): void {
    for (const session of [...this.#sessions.keys()]) this.release(session);
  }

  // Canonical form: f16 bits, [k|v][position][head][column].
  async export(
    session: number,
    layer: number,
    states: readonly StateSpec[],
    first: number,
    count: number,
  ): Promise<Uint16Array> {
    const held = this.#sessions.get(session)?.get(layer);
    if (!held) {
      throw new EngineError("not_found", `Session ${session} has no KV in layer ${layer}.`);
    }
    const parts: Uint16Array[] = [];
    for (const [index, state] of states.entries()) {
      const data = await readFloats(held[index]!);
      const positions = held[index]!.dims[2]!;
      const canonical = transpose(data, state, positions, first, count);
      parts.push(canonical instanceof Uint16Array ? canonical : halvesOf(canonical));
    }
    const out = new Uint16Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      out.set(part, at);
      at += part.length;
    }
    return out;
  }

  // The layer's tensors of `first` positions held and `count` more in canonical form.
  async importing(
    session: number,
    layer: number,
    states: readonly StateSpec[],
    first: number,
    count: number,
    kv: Uint16Array,
  ): Promise<Tensor[]> {
    const base = await this.take(session, layer, states, first);
    const tensors: Tensor[] = [];
    let at = 0;
    for (const [index, state] of states.entries()) {
      const columns = state.heads * state.headColumns;
      const bits = kv.subarray(at, at + columns * count);
      at += columns * count;
      const added = state.type === "float16" ? bits : floatsOf(bits);
      const data = await readFloats(base.tensors[index]!);
      tensors.push(this.#tensor(state, append(data, added, state, first, count), first + count));
    }
    if (base.owned) for (const tensor of base.tensors) tensor.dispose();
    return tensors;
  }

  // A copy of the first `length` positions.
  async copy(
    session: number,
    layer: number,
    states: readonly StateSpec[],
    length: number,
  ): Promise<Tensor[]> {
    const held = this.#sessions.get(session)?.get(layer) ?? [];
    const copies: Tensor[] = [];
    for (const [index, state] of states.entries()) {
      copies.push(await this.#slice(held[index]!, state, 0, length));
    }
    return copies;
  }

  async #slice(tensor: Tensor, state: StateSpec, first: number, count: number): Promise<Tensor> {
    const data = await readFloats(tensor);
    const positions = tensor.dims[2]!;
    const stride = state.headColumns;
    const out = floats(state.type, state.heads * count * stride);
    for (let head = 0; head < state.heads; ++head) {
      const from = (head * positions + first) * stride;
      out.set(data.subarray(from, from + count * stride), head * count * stride);
    }
    return this.#tensor(state, out, count);
  }

  #empty(state: StateSpec): Tensor {
    return this.#tensor(state, floats(state.type, 0), 0);
  }

  #tensor(state: StateSpec, data: FloatArray, positions: number): Tensor {
    const dims = [1, state.heads, positions, state.headColumns];
    return new this.#ort.Tensor(state.type, data as Float32Array, dims);
  }

  #drop(tensors: Tensor[] | undefined): void {
    if (!tensors) return;
    this.#count(-tensors.reduce((sum, tensor) => sum + tensorBytes(tensor), 0));
    for (const tensor of tensors) tensor.dispose();
  }

  #count(delta: number): void {
    this.#bytes += delta;
    this.#onBytes(delta);
  }
}

function halvesOf(values: Float32Array): Uint16Array {
  const halves = new Uint16Array(values.length);
  f32ToF16(values, halves);
  return halves;
}

function floatsOf(halves: Uint16Array): Float32Array {
  const values = new Float32Array(halves.length);
  f16ToF32(halves, values);
  return values;
}

function floats(type: FloatType, length: number): FloatArray {
  return type === "float16" ? new Uint16Array(length) : new Float32Array(length);
}

// The data of a float tensor wherever it lies; f16 as its bits.
export async function readFloats(tensor: Tensor): Promise<FloatArray> {
  if (tensor.dims.includes(0)) return floats(tensor.type === "float16" ? "float16" : "float32", 0);
  const data = (await tensor.getData()) as ArrayBufferView;
  if (tensor.type === "float32") return data as Float32Array;
  // Float16Array where the browser has it, else Uint16Array.
  return new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
}

// [head][position][column] of `positions` to [position][head][column] of [first, first + count).
function transpose(
  data: FloatArray,
  { heads, headColumns, type }: StateSpec,
  positions: number,
  first: number,
  count: number,
): FloatArray {
  const out = floats(type, count * heads * headColumns);
  for (let head = 0; head < heads; ++head) {
    for (let i = 0; i < count; ++i) {
      const from = (head * positions + first + i) * headColumns;
      out.set(data.subarray(from, from + headColumns), (i * heads + head) * headColumns);
    }
  }
  return out;
}

// `data` [head][first][column] with `added` [count][head][column] behind it.
function append(
  data: FloatArray,
  added: FloatArray,
  { heads, headColumns, type }: StateSpec,
  first: number,
  count: number,
): FloatArray {
  const total = first + count;
  const out = floats(type, heads * total * headColumns);
  for (let head = 0; head < heads; ++head) {
    const held = data.subarray(head * first * headColumns, (head + 1) * first * headColumns);
    out.set(held, head * total * headColumns);
    for (let i = 0; i < count; ++i) {
      const from = (i * heads + head) * headColumns;
      const to = (head * total + first + i) * headColumns;
      out.set(added.subarray(from, from + headColumns), to);
    }
  }
  return out;
}
