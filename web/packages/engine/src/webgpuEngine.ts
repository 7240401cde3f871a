// StageEngine on WebGPU: interprets the programs of the package with our own kernels. How it works:
// docs/webgpu.md. One caller at a time, as for every engine, but several steps may be under way at
// once, also of one session; in a dedicated Worker or under Node.
import { EngineError, KernelRefusedError } from "./base/error.ts";
import { Rounding } from "./kernels/common/numbers.ts";
import { Buffers } from "./gpu/buffers.ts";
import { LoadPace } from "./gpu/loadPace.ts";
import type { Gpu } from "./gpu/open.ts";
import { defaultArithmetic } from "./tune/candidates.ts";
import type { Wish } from "./tune/candidates.ts";
import type { Tuning } from "./tune/tune.ts";
import { Pipelines } from "./gpu/pipelines.ts";
import { canonicalLength, fromCanonical, toCanonical } from "./kv/canonical.ts";
import { kPagePositions, Pages } from "./kv/pages.ts";
import type { Append } from "./kv/pages.ts";
import { pageBytes, Pools } from "./kv/pools.ts";
import type { PageShape } from "./kv/pools.ts";
import { kChainSlots, kFewestSlots } from "./kv/stateChain.ts";
import { kNone } from "./kernels/common/op.ts";
import { States } from "./kv/states.ts";
import type { StateAppend, StateSlots } from "./kv/states.ts";
import { stateFloats } from "./program/ir.ts";
import { checkStep, layersOf, outputColumns } from "./run/check.ts";
import { Machine } from "./run/machine.ts";
import { checkSampling } from "./sampling/parameters.ts";
import { arenaWords, StepRunner } from "./run/step.ts";
import { kMaxInterval, TokenLoop } from "./run/tokenLoop.ts";
import type { Sessions } from "./run/tokenLoop.ts";
import { StepsUnderWay } from "./run/underWay.ts";
import { SessionTable } from "./stage/sessionTable.ts";
import { kNothingHeld } from "./stage/stageEngine.ts";
import type {
  GenerateRequest,
  HeldSession,
  LayerRange,
  MemoryUse,
  Run,
  SessionFork,
  StageEngine,
  StepInput,
  StepOutput,
  TokenSource,
  WeightSource,
} from "./stage/stageEngine.ts";
import { LayerLoader } from "./load/layerLoader.ts";
import { LayersAhead } from "./load/layersAhead.ts";
import type { LoadedLayer } from "./dispatch/loadedLayer.ts";
import type { Program } from "./program/ir.ts";

export interface WebGpuOptions {
  // Refuses loads and steps that would take more; 0: no limit.
  readonly memoryLimitBytes: number;
  // Bytes that others hold within the same limit.
  readonly alsoHeld: () => number;
  // What keys and values are kept in: f16, or f32 for models that are to be exact to f32.
  readonly kvDtype: "f16" | "f32";
  // What rows are rounded to after the embedding and every layer: the wire's type.
  readonly residualDtype: "f32" | "f16" | "bf16";
  // Whether the queue is poked while a result is waited for (run/poker.ts); null: where it helps,
  // on a hardware adapter in a browser.
  readonly pokes: boolean | null;
  // How products are computed, where that is to be forced: as 16-bit integers (of q4 and q8
  // weights; an input is off by at most 2^-16 of the largest of its block of 32), in f16, or in f32
  // for models that are to be exact to f32. What the device cannot is done in f32. Without a word:
  // f32 with keys and values in f32, else what the device does best.
  readonly products?: "f32" | "int16" | "f16";
  // Which kernels the device gets (tune/): found out, or kept, by makeWebGpuEngine; without it,
  // and where it is "off", the device's default.
  readonly tuning?: Tuning;
  // How it was found out, for people.
  readonly detail?: string;
}

// What may be chosen for a model that is served so.
export function wishOf({ kvDtype, products }: WebGpuOptions): Wish {
  return { products: products ?? (kvDtype === "f32" ? "f32" : null) };
}

export const kDefaultOptions: WebGpuOptions = {
  memoryLimitBytes: 0,
  alsoHeld: () => 0,
  kvDtype: "f16",
  residualDtype: "f32",
  pokes: null,
};

function isBrowser(): boolean {
  return "WorkerGlobalScope" in globalThis || "document" in globalThis;
}

export class WebGpuEngine implements StageEngine {
  readonly name = "webgpu";
  readonly detail: string;
  readonly kvFactor: number;
  readonly copiesKv = false;
  readonly packs: "f16" | "bf16" | null;
  readonly lost: Promise<string>;
  readonly #machine: Machine;
  readonly #buffers: Buffers;
  readonly #loader: LayerLoader;
  readonly #ahead: LayersAhead;
  readonly #pools: Pools;
  readonly #states: States;
  readonly #pages = new Pages();
  readonly #table = new SessionTable();
  readonly #pace = new LoadPace();
  readonly #underWay = new StepsUnderWay();
  #lostBecause = "";
  #submitted: Promise<unknown> = Promise.resolve(); // all commands of the last step
  #lastOutput: Promise<unknown> = Promise.resolve(); // steps end in order
  #refusedBecause = ""; // a command that the device did not take: results are not to be trusted

  constructor(gpu: Gpu, options: WebGpuOptions = kDefaultOptions) {
    // A pool grows by a quarter.
    this.kvFactor = options.kvDtype === "f32" ? 2.5 : 1.25;
    this.#buffers = new Buffers(gpu, options.memoryLimitBytes, options.alsoHeld);
    this.packs = options.residualDtype === "f32" ? null : options.residualDtype;
    const pipelines = Pipelines.of(gpu.device);
    const kvIsF32 = options.kvDtype === "f32";
    this.#pools = new Pools(this.#buffers, kvIsF32);
    this.#states = new States(this.#buffers);
    this.#pages.grow(this.#pools.capacity);
    const round = Rounding[options.residualDtype];
    const pokes = options.pokes ?? (gpu.isHardware && isBrowser());
    const { tuning } = options;
    this.detail = options.detail ?? "";
    const arithmetic =
      typeof tuning === "object" ? tuning : defaultArithmetic(gpu, wishOf(options));
    this.#machine = new Machine(this.#buffers, pipelines, this.#pools, this.#states, {
      kvIsF32,
      round,
      pokes,
      arithmetic,
    });
    const { ropes } = this.#machine;
    this.#loader = new LayerLoader(this.#buffers, pipelines, ropes, this.#pace);
    this.#ahead = new LayersAhead((layer) => this.#loader.free(layer));
    gpu.device.addEventListener("uncapturederror", ({ error }) => {
      this.#refusedBecause ||= error.message;
    });
    this.lost = new Promise((resolve) => {
      void gpu.device.lost.then(({ message, reason }) => {
        this.#lostBecause = message === "" ? "no reason was given" : message;
        if (reason !== "destroyed") resolve(this.#lostBecause); // else dispose() did it
      });
    });
  }

  // What a decode step runs, and the switch for reuse: measurements and tests look at them.
  get machine(): Machine {
    return this.#machine;
  }

  async load(
    layers: LayerRange,
    source: WeightSource,
    onBytes: (bytes: number) => void = () => undefined,
    isPart = false,
  ): Promise<void> {
    const { first, end } = layers;
    const indices = Array.from({ length: end - first }, (_, at) => first + at);
    const load = async (index: number): Promise<LoadedLayer> =>
      (await this.#ahead.take(index)) ?? (await this.#loader.load(index, source, onBytes));
    await this.#loadAll(indices, load, isPart);
  }

  planPositions(count: number): void {
    this.#pools.plan(Math.ceil(count / kPagePositions));
  }

  async loadAhead(index: number, source: WeightSource): Promise<void> {
    this.#checkDevice();
    if (this.#machine.layers.has(index)) return;
    await this.#ahead.bring(index, async () => {
      const layer = await this.#loader.load(index, source, () => undefined);
      this.#machine.compileAhead(layer);
      return layer;
    });
  }

  async loadProgram(
    program: Program,
    source: WeightSource,
    onBytes: (bytes: number) => void = () => undefined,
  ): Promise<void> {
    const load = (): Promise<LoadedLayer> =>
      this.#loader.loadProgram(program, source, onBytes);
    await this.#loadAll([program.layerIndex], load, false);
  }

  async #loadAll(
    indices: readonly number[],
    load: (index: number) => Promise<LoadedLayer>,
    isPart: boolean,
  ): Promise<void> {
    this.#checkDevice();
    const loaded: number[] = [];
    try {
      for (const index of indices) {
        if (this.#machine.layers.has(index)) continue;
        const layer = await load(index);
        this.#machine.layers.set(index, layer);
        loaded.push(index);
        const keepsKv = layer.attention?.kvLayer === null;
        if (keepsKv) this.#pools.add(index, layer.attention);
        this.#checkSource(layer);
        const floats = stateFloats(layer.program);
        if (floats > 0) this.#states.add(index, floats);
        this.#table.addLayer(index, { kv: keepsKv, state: floats > 0 });
        this.#machine.compileAhead(layer);
      }
      if (!isPart) await this.#buffers.guarded("Loading layers", () => this.#machine.prepare());
      this.#checkDevice(); // commands to a device that was lost fail silently
    } catch (error) {
      for (const index of loaded) this.#unloadLayer(index);
      throw this.#asLost(error);
    }
  }

  // Without the layer whose keys and values it attends to a layer has nothing to be bound to.
  #checkSource({ index, attention }: LoadedLayer): void {
    const source = attention?.kvLayer ?? null;
    if (source === null || this.#pools.buffer(source)) return;
    throw new EngineError(
      "invalid_argument",
      `Layer ${index} attends to the keys and values of layer ${source}, which is not loaded.`,
    );
  }

  // Those that attend to its keys and values go with it.
  #unloadLayer(index: number): void {
    const layer = this.#machine.layers.get(index);
    if (!layer) return;
    for (const [other, { attention }] of [...this.#machine.layers]) {
      if (attention?.kvLayer === index) this.#unloadLayer(other);
    }
    this.#machine.layers.delete(index);
    this.#machine.invalidate();
    this.#pools.remove(index);
    this.#states.remove(index);
    this.#table.removeLayer(index);
    this.#loader.free(layer);
  }

  unload(layers: LayerRange): Promise<void> {
    for (let index = layers.first; index < layers.end; ++index) {
      this.#ahead.drop(index);
      this.#unloadLayer(index);
    }
    if (this.#machine.layers.size === 0) this.#pages.releaseAll();
    return Promise.resolve();
  }

  isLoaded({ first, end }: LayerRange): boolean {
    for (let index = first; index < end; ++index) {
      if (!this.#machine.layers.has(index)) return false;
    }
    return first < end;
  }

  step(input: StepInput): Promise<StepOutput> {
    return this.#pace.step(() => this.#step(input));
  }

  // A step is encoded once all of the one before is submitted, while that one is computed.
  async #step(input: StepInput): Promise<StepOutput> {
    const begun = this.#submitted.then(() => this.#beginWithRoom(input));
    this.#submitted = begun.catch(() => undefined);
    const { output } = await begun;
    return await output;
  }

  // What steps under way replace is free once they have ended. Where memory is short, that is
  // waited for.
  async #beginWithRoom(input: StepInput): Promise<{ output: Promise<StepOutput> }> {
    try {
      return await this.#begin(input);
    } catch (error) {
      const isFull = error instanceof EngineError && error.code === "out_of_memory";
      if (!isFull || this.#underWay.isEmpty) throw error;
      await this.#lastOutput;
      return await this.#begin(input);
    }
  }

  // Resolves once all is submitted.
  async #begin(input: StepInput): Promise<{ output: Promise<StepOutput> }> {
    this.#checkDevice();
    const layers = layersOf(this.#machine.layers, input.layers);
    checkStep(layers, input);
    if (!this.packs && (input.packed || input.packOutput === true)) {
      throw new EngineError(
        "invalid_argument",
        "This engine keeps its residual rows in f32: they cannot come or go packed.",
      );
    }
    this.#table.check(input.layers, input.runs);
    const hasKv = layers.some(({ attention }) => attention !== null);
    const append = hasKv ? this.#beginAppend(input.runs) : null;
    const pages = append?.pages ?? new Map<number, readonly number[]>();
    let states: StateAppend | null = null;
    let isSubmitting = false;
    try {
      const taken = (states = this.#beginStates(input.layers, input.runs));
      const slots = this.#slotsOf(taken);
      const { arena, ropes } = this.#machine;
      const rows = input.runs.reduce((sum, { count }) => sum + count, 0);
      const bodyRows = this.#machine.expectRows(rows);
      const words = arenaWords(layers, input, bodyRows, pages, slots, ropes.columns);
      if (arena.reserve(words)) this.#machine.invalidate();
      await this.#machine.prepare();
      const runner = new StepRunner(this.#machine, layers, input, pages, slots);
      isSubmitting = true;
      const { output } = await runner.run((encoder) => {
        if (append) this.#pools.copy(encoder, append.copies);
      });
      return { output: this.#settled(input, output, append, taken) };
    } catch (error) {
      append?.drop();
      states?.drop();
      if (isSubmitting) this.#forgetOverwritten(input.layers, input.runs);
      throw this.#asLost(error);
    }
  }

  // All is submitted, and counts: what comes next is computed behind it. Resolves with the results.
  #settled(
    { layers, runs }: StepInput,
    output: Promise<StepOutput>,
    append: Append | null,
    states: StateAppend,
  ): Promise<StepOutput> {
    append?.count();
    states.count();
    const uncommit = this.#table.commit(layers, runs);
    const step = this.#underWay.begin({
      sessions: runs.map(({ session }) => session),
      keep: () => {
        append?.keep();
        states.keep();
      },
      undo: () => {
        uncommit();
        states.drop();
        append?.drop();
        this.#forgetOverwritten(layers, runs);
      },
    });
    const settle = async (): Promise<StepOutput> => {
      try {
        const got = await output;
        this.#checkDevice();
        step.keep();
        return got;
      } catch (error) {
        throw this.#asLost(step.fail(error));
      }
    };
    const settled = settle();
    this.#lastOutput = settled.catch(() => undefined);
    return settled;
  }

  // Decoding where this engine holds the whole model: run/tokenLoop.ts.
  generateAll(layers: LayerRange, source: TokenSource): Promise<void> {
    return this.#pace.generate(() => this.#generateAll(layers, source));
  }

  async #generateAll(layers: LayerRange, source: TokenSource): Promise<void> {
    this.#checkDevice();
    const loaded = layersOf(this.#machine.layers, layers);
    const sessions = this.#sessionsOf(layers, loaded);
    try {
      await this.#machine.prepare();
      await new TokenLoop(this.#machine, loaded, sessions).run(source);
      this.#checkDevice();
    } catch (error) {
      throw this.#asLost(error);
    }
  }

  // Returns how many tokens were made; the session then holds that many positions more.
  async generate(layers: LayerRange, request: GenerateRequest): Promise<number> {
    let made = 0;
    const failures: unknown[] = [];
    const own: GenerateRequest = {
      ...request,
      onTokens: (tokens, isLast, ms) => {
        made += tokens.length;
        return request.onTokens(tokens, isLast, ms);
      },
      onFailed: (error) => failures.push(error),
    };
    const waiting = [own];
    const source = { take: () => waiting.splice(0), pauses: () => false };
    await this.generateAll(layers, source);
    if (failures.length > 0) throw this.#asLost(failures[0]);
    return made;
  }

  #sessionsOf(layers: LayerRange, loaded: readonly LoadedLayer[]): Sessions {
    const runOf = (request: GenerateRequest, done: number, count: number): Run => ({
      session: request.session,
      generation: request.generation,
      firstPosition: request.firstPosition + done,
      count,
      output: { kind: "argmax" },
    });
    return {
      begin: (request) => {
        const { count, interval, firstToken, sampling } = request;
        const runs = [runOf(request, 0, count)];
        const tokenIds = Int32Array.from({ length: count }, () => firstToken);
        checkStep(loaded, { layers, runs, tokenIds, hidden: new Float32Array(0) });
        this.#table.check(layers, runs);
        if (sampling) checkSampling(sampling, outputColumns(loaded.at(-1)!));
        if (!(interval >= 1 && interval <= kMaxInterval)) {
          const message = `The interval is ${interval}; expected 1 to ${kMaxInterval}.`;
          throw new EngineError("invalid_argument", message);
        }
        const append = this.#beginAppend(runs);
        let slotCount: number;
        try {
          slotCount = this.#reserveChain(layers, runs[0]!);
        } catch (error) {
          append.drop();
          throw error;
        }
        if (append.copies.length > 0) {
          const copy = (commands: GPUCommandEncoder): void =>
            this.#pools.copy(commands, append.copies);
          this.#machine.encoder.submit([], [], copy);
        }
        const states = this.#states.chain(layers, runs[0]!, slotCount);
        const isTight = states !== null && slotCount < kChainSlots;
        return { append, states, interval: isTight ? 1 : interval, isTight };
      },
      slotsOf: (slots) =>
        this.#states.layers.map((layer) => ({
          before: slots.map((each) => each.get(layer)?.before ?? kNone),
          after: slots.map((each) => each.get(layer)?.after ?? 0),
        })),
      commit: (request, done, count) =>
        this.#table.commit(layers, [runOf(request, done, count)]),
      end: (request, append, done, hasWritten) => {
        if (done > 0) return append.keep();
        append.drop();
        if (hasWritten) this.#forgetOverwritten(layers, [runOf(request, 0, request.count)]);
      },
    };
  }

  // Room for the states of a session that makes tokens ahead: for as many as memory allows.
  #reserveChain(layers: LayerRange, run: Run): number {
    for (const slotCount of [kChainSlots, kFewestSlots]) {
      try {
        if (this.#states.reserveChain(layers, run, slotCount)) this.#machine.rebindState();
        return slotCount;
      } catch (error) {
        this.#machine.rebindState(); // some layers may have got room
        const isFull = error instanceof EngineError && error.code === "out_of_memory";
        if (!isFull || slotCount === kFewestSlots) throw error;
      }
    }
    return kFewestSlots;
  }

  // Slots for the next states of the runs, after growing the buffers where needed.
  #beginStates(layers: LayerRange, runs: readonly Run[]): StateAppend {
    if (this.#states.reserve(layers, runs.length)) this.#machine.rebindState();
    return this.#states.begin(layers, runs);
  }

  // The slots of all loaded layers with state, as the kernels count them. Those that do not run
  // stand there with another one's, which nobody reads.
  #slotsOf(append: StateAppend): StateSlots[] {
    if (append.slots.size === 0) return [];
    const [any] = append.slots.values();
    return this.#states.layers.map((layer) => append.slots.get(layer) ?? any!);
  }

  // Pages for the runs, after growing the pools where needed.
  #beginAppend(runs: readonly Run[]): Append {
    const missing = this.#pages.missing(runs);
    if (missing > 0) {
      this.#pools.grow(this.#pages.capacity + missing);
      this.#pages.grow(this.#pools.capacity);
      this.#machine.rebindState();
    }
    return this.#pages.begin(runs);
  }

  // A run that truncates writes over positions that it replaces: they are gone if its step fails.
  #forgetOverwritten(layers: LayerRange, runs: readonly Run[]): void {
    for (const { session, firstPosition } of runs) {
      if (this.#table.held(session, layers).positions > firstPosition) this.release(session);
    }
  }

  truncate(session: number, generation: number, position: number): Promise<void> {
    return Promise.resolve().then(() => {
      this.#table.truncate(session, generation, position);
      this.#states.truncate(session, position);
    });
  }

  fork(layers: LayerRange, fork: SessionFork): Promise<void> {
    return Promise.resolve().then(() => {
      const { from, to, positionCount } = fork;
      layersOf(this.#machine.layers, layers);
      this.#table.checkFork(layers, fork);
      if (!this.#pages.canFork(from, to, positionCount)) {
        throw new EngineError(
          "unsupported",
          `Session ${to} holds keys and values of its own in other layers of this tab, so ` +
            `session ${from} cannot be forked into it at position ${positionCount}.`,
        );
      }
      this.#table.fork(layers, fork);
      this.#pages.fork(from, to, positionCount);
      this.#states.fork(layers, fork);
    });
  }

  release(session: number): void {
    this.#table.release(session);
    this.#pages.release(session);
    this.#states.release(session);
  }

  releaseAll(): void {
    this.#table.releaseAll();
    this.#pages.releaseAll();
    this.#states.releaseAll();
  }

  heldSession(session: number, layers: LayerRange): HeldSession {
    return this.isLoaded(layers) ? this.#table.held(session, layers) : kNothingHeld;
  }

  async exportKv(
    session: number,
    layer: number,
    first: number,
    count: number,
  ): Promise<Uint16Array> {
    this.#checkDevice();
    const length = this.#table.layerLength(session, layer);
    const shape = this.#pools.shape(layer);
    if (first + count > length || !shape) {
      throw new EngineError(
        "invalid_argument",
        `Session ${session} holds ${shape ? length : 0} positions of layer ${layer}; ${count} ` +
          `from position ${first} were asked for.`,
      );
    }
    const { firstPage, pages } = this.#pagesOf(this.#pages.of(session), first, count);
    const words = await this.#readPages(layer, shape, pages);
    return toCanonical(shape, words, first - firstPage * kPagePositions, count);
  }

  async importKv(
    session: number,
    generation: number,
    layer: number,
    first: number,
    count: number,
    kv: Uint16Array,
  ): Promise<void> {
    this.#checkDevice();
    const range = { first: layer, end: layer + 1 };
    layersOf(this.#machine.layers, range);
    const output = { kind: "none" } as const;
    const run: Run = { session, generation, firstPosition: first, count, output };
    this.#table.check(range, [run]);
    const shape = this.#pools.shape(layer);
    const expected = shape ? canonicalLength(shape, count) : 0;
    if (!shape || kv.length !== expected) {
      throw new EngineError(
        "invalid_data",
        `KV of ${count} positions of layer ${layer} takes ${expected} values; ${kv.length} came.`,
      );
    }
    const append = this.#beginAppend([run]);
    await this.#machine.prepare();
    const { device } = this.#buffers.gpu;
    const encoder = device.createCommandEncoder();
    this.#pools.copy(encoder, append.copies);
    device.queue.submit([encoder.finish()]);
    const { firstPage, pages } = this.#pagesOf(append.pages.get(session)!, first, count);
    const words = await this.#readPages(layer, shape, pages);
    fromCanonical(shape, words, first - firstPage * kPagePositions, count, kv);
    const pageWords = pageBytes(shape) / 4;
    const buffer = this.#pools.buffer(layer)!;
    for (const [index, page] of pages.entries()) {
      const own = words.subarray(index * pageWords, (index + 1) * pageWords);
      device.queue.writeBuffer(buffer, page * pageBytes(shape), own);
    }
    append.keep();
    this.#table.commit(range, [run]);
  }

  #pagesOf(
    held: readonly number[],
    first: number,
    count: number,
  ): { firstPage: number; pages: readonly number[] } {
    const firstPage = Math.floor(first / kPagePositions);
    const end = Math.ceil((first + count) / kPagePositions);
    return { firstPage, pages: held.slice(firstPage, end) };
  }

  async #readPages(
    layer: number,
    shape: PageShape,
    pages: readonly number[],
  ): Promise<Uint32Array<ArrayBuffer>> {
    if (pages.length === 0) return new Uint32Array(0);
    const bytes = pageBytes(shape);
    const { staging } = this.#machine;
    const target = staging.take(pages.length * bytes);
    const { device } = this.#buffers.gpu;
    const encoder = device.createCommandEncoder();
    const buffer = this.#pools.buffer(layer)!;
    for (const [index, page] of pages.entries()) {
      encoder.copyBufferToBuffer(buffer, page * bytes, target, index * bytes, bytes);
    }
    device.queue.submit([encoder.finish()]);
    return new Uint32Array(await staging.read(target, pages.length * bytes));
  }

  memory(): MemoryUse {
    return {
      weightBytes: this.#buffers.bytes("weights"),
      kvBytes: this.#buffers.bytes("kv"),
      scratchBytes: this.#buffers.bytes("scratch"),
    };
  }

  // Frees everything, but leaves the device: for tests that share one.
  freeBuffers(): void {
    this.releaseAll();
    this.#ahead.dropAll();
    this.#buffers.freeAll();
  }

  dispose(): Promise<void> {
    this.freeBuffers();
    this.#buffers.gpu.device.destroy();
    return Promise.resolve();
  }

  #checkDevice(): void {
    if (this.#lostBecause !== "") {
      throw new EngineError("unavailable", `The GPU was lost: ${this.#lostBecause}.`);
    }
    if (this.#refusedBecause === "") return;
    throw new EngineError("unavailable", `The GPU refused a command: ${this.#refusedBecause}`);
  }

  // What fails on a lost device fails because of that.
  #asLost(error: unknown): unknown {
    const isKernel = error instanceof KernelRefusedError && this.#lostBecause !== "";
    if (error instanceof EngineError && !isKernel) return error;
    const why = error instanceof Error ? error.message : String(error);
    const cause = this.#lostBecause === "" ? why : `it was lost (${this.#lostBecause})`;
    return new EngineError("unavailable", `The GPU did not finish: ${cause}`);
  }
}
