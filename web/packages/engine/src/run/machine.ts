// The dispatches of all loaded layers over the buffers that they share. They are made anew when a
// shared buffer or the layout changes (a load, more pages); between that, steps create nothing.
import { Usage } from "../gpu/buffers.ts";
import type { Buffers } from "../gpu/buffers.ts";
import type { Arithmetic } from "../kernels/product/arithmetic.ts";
import { kRoomyBytes } from "../gpu/open.ts";
import type { Pipelines } from "../gpu/pipelines.ts";
import type { Pools } from "../kv/pools.ts";
import type { States } from "../kv/states.ts";
import { makeDispatches, rebind } from "../dispatch/dispatch.ts";
import type { Dispatch, DispatchList, Draft, Shared } from "../dispatch/dispatch.ts";
import { LayerContext } from "../dispatch/layerContext.ts";
import { layerDrafts } from "../dispatch/layer.ts";
import type { ExchangePoint } from "../dispatch/layer.ts";
import { EngineError } from "../base/error.ts";
import { kMaxSeats } from "../base/seats.ts";
import {
  kMaxRows,
  kNoNeeds,
  kSeatCounts,
  kUsualRows,
  layoutOf,
  mostOf,
  needsOf,
} from "../dispatch/layout.ts";
import type { Layout } from "../dispatch/layout.ts";
import type { LoadedLayer } from "../dispatch/loadedLayer.ts";
import { sampleDrafts, sampleDispatchesOf } from "../dispatch/sampling.ts";
import type { SampleDispatches } from "../dispatch/sampling.ts";
import {
  argmaxDrafts,
  checkDraft,
  gatherDraft,
  scaledSumDraft,
  topKDrafts,
  unpackDraft,
} from "../dispatch/selection.ts";
import { endsInLogits } from "../program/ir.ts";
import { Arena } from "./arena.ts";
import { inputColumns, outputColumns } from "./check.ts";
import { Encoder } from "./encoder.ts";
import { Poker } from "./poker.ts";
import { Ropes } from "./ropes.ts";
import { Staging } from "./staging.ts";

function isFull(error: unknown): boolean {
  return error instanceof EngineError && error.code === "out_of_memory";
}

const kUsage = Usage.storage | Usage.copyFrom | Usage.copyTo;

export interface MachineOptions {
  readonly kvIsF32: boolean;
  readonly round: number; // common.wgsl round_value
  readonly pokes: boolean;
  readonly arithmetic: Arithmetic;
}

interface LayerDispatches {
  readonly kv: GPUBuffer | null; // the keys and values, or states, that they see
  readonly all: readonly Dispatch[];
  readonly layer: Dispatch[];
  readonly exchanges: readonly ExchangePoint[];
  readonly check: Dispatch[]; // of the residual stream it leaves; not for a head
  readonly checkAndPack: Dispatch[];
  readonly unpack: Dispatch[]; // of the rows that came for it; not for the embedding
  readonly gather: Dispatch[]; // for a head
  readonly argmax: Dispatch[];
  readonly topK: Dispatch[]; // with the sum over the vocabulary
}

export class Machine {
  readonly buffers: Buffers;
  readonly encoder: Encoder;
  readonly arena: Arena;
  readonly poker: Poker;
  readonly staging: Staging;
  readonly ropes = new Ropes();
  readonly layers = new Map<number, LoadedLayer>();
  readonly #pipelines: Pipelines;
  readonly #pools: Pools;
  readonly #states: States;
  readonly #options: MachineOptions;
  readonly #unusedRead: GPUBuffer;
  readonly #unusedWrite: GPUBuffer;
  #layout: Layout = layoutOf(kNoNeeds, kUsualRows);
  #bodyRows = kUsualRows;
  #seats = 1;
  #maxSeats = kMaxSeats;
  #maxRows = kMaxRows;
  #act: GPUBuffer | null = null;
  #aux: GPUBuffer | null = null;
  #ofLayer = new Map<number, LayerDispatches>();
  #ofSampling = new Map<number, SampleDispatches>();
  #params: GPUBuffer[] = [];
  #isStale = true;

  constructor(
    buffers: Buffers,
    pipelines: Pipelines,
    pools: Pools,
    states: States,
    options: MachineOptions,
  ) {
    this.buffers = buffers;
    this.#pipelines = pipelines;
    this.#pools = pools;
    this.#states = states;
    this.#options = options;
    this.encoder = new Encoder(buffers.gpu.device);
    this.arena = new Arena(buffers);
    this.poker = new Poker(buffers.gpu.device.queue, options.pokes);
    this.staging = new Staging(buffers, this.poker);
    this.#unusedRead = buffers.make("unused", "scratch", 16, Usage.storage);
    this.#unusedWrite = buffers.make("unused", "scratch", 16, Usage.storage);
  }

  get layout(): Layout {
    return this.#layout;
  }

  get act(): GPUBuffer {
    return this.#act!;
  }

  get aux(): GPUBuffer {
    return this.#aux!;
  }

  // REQUIRES: prepare() since the last change.
  dispatchesOf(layer: number): LayerDispatches {
    return this.#ofLayer.get(layer)!;
  }

  // What is shared changed: the next prepare() makes all dispatches anew.
  invalidate(): void {
    this.#isStale = true;
  }

  // Keys and values, or states, have moved to larger buffers. Only those that see them change: a
  // session that begins would else wait for all bind groups of a model.
  rebindState(): void {
    const { device } = this.buffers.gpu;
    for (const [index, made] of this.#ofLayer) {
      const kv = this.#stateOf(index);
      if (!kv || !made.kv || kv === made.kv) continue;
      for (const dispatch of made.all) rebind(device, dispatch, made.kv, kv);
      this.#ofLayer.set(index, { ...made, kv });
    }
  }

  #stateOf(layer: number): GPUBuffer | null {
    const source = this.layers.get(layer)?.attention?.kvLayer ?? layer;
    return this.#pools.buffer(source) ?? this.#states.buffer(layer);
  }

  // The layer's kernels are compiled while other layers are loaded. Who is refused one hears of it
  // from prepare().
  compileAhead(layer: LoadedLayer): void {
    const layout = this.#layoutFor(this.#bodyRows);
    for (const { variant } of this.#draftsOf(layer, layout).groups.flat()) {
      this.#pipelines.get(variant).catch(() => undefined);
    }
  }

  // A step of so many rows comes: from now on it takes fewer passes, if memory allows. Returns how
  // many rows a pass will have at most.
  expectRows(count: number): number {
    if (count > this.#bodyRows && this.#bodyRows < this.#maxRows) {
      this.#bodyRows = this.#maxRows;
      this.#isStale = true;
    }
    return this.#bodyRows;
  }

  // So many sessions are to make tokens in one batch: there are seats for as many as memory allows.
  // Returns how many there are; if they are more than before, what the samplers and chains held is
  // gone.
  expectSeats(count: number): number {
    const wanted = kSeatCounts.find((seats) => seats >= count) ?? kMaxSeats;
    if (wanted <= this.#seats || this.#seats >= this.#maxSeats) return this.#seats;
    const before = this.#seats;
    this.#seats = wanted;
    this.#isStale = true;
    try {
      this.#resizeFor(this.#bodyRows);
    } catch (error) {
      if (!isFull(error)) throw error;
      this.#maxSeats = this.#seats = before;
      this.#freeScratch();
      this.#resize();
    }
    return this.#seats;
  }

  // A layer that was loaded meanwhile gets its dispatches; those of the others stay where it needs
  // no larger views than they do, so that loading a model does not make them all once a layer.
  async prepare(): Promise<void> {
    const isComplete = [...this.layers.keys()].every((index) => this.#ofLayer.has(index));
    if (!this.#isStale && isComplete) return;
    const shared = (): string =>
      JSON.stringify([this.#layout, this.#act?.size ?? 0, this.#aux?.size ?? 0]);
    const before = this.#isStale ? "" : shared();
    this.#isStale = true; // until all are made
    this.#resize();
    if (shared() !== before) this.#forgetDispatches();
    for (const layer of this.layers.values()) {
      if (this.#ofLayer.has(layer.index)) continue;
      this.#ofLayer.set(layer.index, await this.#makeLayer(layer));
    }
    this.#isStale = false;
  }

  #forgetDispatches(): void {
    for (const params of this.#params) this.buffers.free(params);
    this.#params = [];
    this.#ofLayer.clear();
    this.#ofSampling.clear();
  }

  // How the head's tokens are drawn: made when sampling is first asked for. REQUIRES: prepare().
  async sampleDispatches(head: LoadedLayer): Promise<SampleDispatches> {
    const known = this.#ofSampling.get(head.index);
    if (known) return known;
    const drafts = sampleDrafts(this.#layout, outputColumns(head));
    const made = await makeDispatches(
      this.buffers,
      this.#pipelines,
      this.#shared(),
      "sampling",
      drafts,
    );
    this.#params.push(made.params);
    const own = sampleDispatchesOf(made.dispatches);
    this.#ofSampling.set(head.index, own);
    return own;
  }

  #shared(): Shared {
    return {
      step: this.arena.buffer,
      act: this.act,
      aux: this.aux,
      unusedRead: this.#unusedRead,
      unusedWrite: this.#unusedWrite,
    };
  }

  #resize(): void {
    try {
      this.#resizeFor(this.#bodyRows);
    } catch (error) {
      if (!isFull(error) || this.#bodyRows === kUsualRows) throw error;
      this.#maxRows = this.#bodyRows = kUsualRows;
      this.#freeScratch();
      this.#resizeFor(kUsualRows);
    }
  }

  #freeScratch(): void {
    for (const buffer of [this.#act, this.#aux]) if (buffer) this.buffers.free(buffer);
    this.#act = this.#aux = null;
  }

  #layoutFor(bodyRows: number): Layout {
    let needs = kNoNeeds;
    for (const layer of this.layers.values()) {
      needs = mostOf(needs, needsOf(layer, bodyRows, this.#seats));
    }
    return layoutOf(needs, bodyRows, this.#seats);
  }

  #resizeFor(bodyRows: number): void {
    this.#layout = this.#layoutFor(bodyRows);
    this.#act = this.#sized(this.#act, "activations", 4 * this.#layout.actValues);
    this.#aux = this.#sized(this.#aux, "selections", 4 * this.#layout.aux.words);
  }

  #sized(buffer: GPUBuffer | null, label: string, byteCount: number): GPUBuffer {
    if (buffer && buffer.size >= byteCount) return buffer;
    if (buffer) this.buffers.free(buffer);
    return this.buffers.make(label, "scratch", byteCount, kUsage);
  }

  // In groups: the layer itself, and what LayerDispatches has beside it.
  #draftsOf(
    layer: LoadedLayer,
    layout: Layout,
  ): { groups: Draft[][]; exchanges: readonly ExchangePoint[] } {
    const { index } = layer;
    const { round } = this.#options;
    const context = new LayerContext(
      layer,
      layout,
      this.#stateOf(index),
      {
        ...this.#options,
        stateLayer: this.#states.indexOf(index),
        isRoomy: this.buffers.gpu.limits.workgroupBytes >= kRoomyBytes,
      },
      this.ropes.firstOf,
    );
    const isHead = endsInLogits(layer.program);
    const columns = outputColumns(layer);
    const inColumns = inputColumns(layer);
    const { drafts, exchanges } = layerDrafts(context, round);
    const groups = [
      drafts,
      isHead ? [] : [checkDraft(layout, columns, 0)],
      isHead || round === 0 ? [] : [checkDraft(layout, columns, round)],
      inColumns === 0 || round === 0 ? [] : [unpackDraft(layout, inColumns, round)],
      isHead ? [gatherDraft(layout, inColumns)] : [],
      isHead ? argmaxDrafts(layout, columns) : [],
      isHead ? [...topKDrafts(layout, columns), scaledSumDraft(layout, columns)] : [],
    ];
    return { groups, exchanges };
  }

  async #makeLayer(layer: LoadedLayer): Promise<LayerDispatches> {
    const kv = this.#stateOf(layer.index);
    const { groups, exchanges } = this.#draftsOf(layer, this.#layout);
    const label = `layer ${layer.index}`;
    const made: DispatchList = await makeDispatches(
      this.buffers,
      this.#pipelines,
      this.#shared(),
      label,
      groups.flat(),
    );
    this.#params.push(made.params);
    let at = 0;
    const next = (group: number): Dispatch[] =>
      made.dispatches.slice(at, (at += groups[group]!.length));
    return {
      kv,
      all: made.dispatches,
      layer: next(0),
      exchanges,
      check: next(1),
      checkAndPack: next(2),
      unpack: next(3),
      gather: next(4),
      argmax: next(5),
      topK: next(6),
    };
  }
}
