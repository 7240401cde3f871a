// Whole-model decoding (weinfer-webgpu 4.3): when one device holds every layer, the token that the
// GPU's argmax chose goes into the next embedding without leaving it, and tokens are fetched every
// `interval` of them. With `pipelined` the next batch is already encoded and submitted while a
// batch is fetched; without, every fetch is waited for before anything more is prepared. Sampling
// stays on the GPU, too: kernels/sample.wgsl.
import { EngineError } from "../base/error.ts";
import { kHistory } from "../dispatch/layout.ts";
import type { LoadedLayer } from "../dispatch/loadedLayer.ts";
import type { GenerateRequest } from "../stage/stageEngine.ts";
import { isPlain } from "../sampling/parameters.ts";
import type { Sampling } from "../sampling/parameters.ts";
import { kChainedToken } from "./arena.ts";
import { outputColumns, vocabularyOf } from "./check.ts";
import type { BufferCopy, Work } from "./encoder.ts";
import type { Machine } from "./machine.ts";
import { choiceOf, writeSampler } from "./sampler.ts";
import type { Choice } from "./sampler.ts";

export const kMaxInterval = kHistory / 4;

type GenerateOptions = Omit<GenerateRequest, "generation">;

interface Batch {
  readonly tokens: Promise<number[]>;
}

// The dispatches behind the output head. REQUIRES: a prepared machine.
export async function prepareChoice(
  machine: Machine,
  head: LoadedLayer,
  sampling: Sampling | undefined,
): Promise<Choice> {
  const { argmax } = machine.dispatchesOf(head.index);
  if (!sampling || isPlain(sampling)) return [argmax];
  return choiceOf(sampling, argmax, await machine.sampleDispatches(head));
}

export class Generator {
  readonly #machine: Machine;
  readonly #layers: readonly LoadedLayer[];
  readonly #options: GenerateOptions;
  readonly #pages: ReadonlyMap<number, readonly number[]>;
  readonly #choice: Choice;
  #accepted = 0;
  #isOver = false;

  // REQUIRES: a prepared machine, all layers of a model, pages for every position.
  constructor(
    machine: Machine,
    layers: readonly LoadedLayer[],
    options: GenerateOptions,
    pages: ReadonlyMap<number, readonly number[]>,
    choice: Choice,
  ) {
    this.#machine = machine;
    this.#layers = layers;
    this.#options = options;
    this.#pages = pages;
    this.#choice = choice;
  }

  // Positions whose keys and values count: those of the tokens that were told.
  async run(): Promise<number> {
    const { count, interval, pipelined, sampling } = this.#options;
    const pending: Batch[] = [];
    if (sampling) writeSampler(this.#machine, outputColumns(this.#layers.at(-1)!), sampling);
    try {
      for (let done = 0; done < count; done += interval) {
        const size = Math.min(interval, count - done);
        pending.push(this.#submit(done, size));
        if (pending.length > (pipelined ? 1 : 0)) await this.#take(pending);
        if (this.#isOver) break;
      }
      while (!this.#isOver && pending.length > 0) await this.#take(pending);
    } finally {
      await Promise.allSettled(pending.map(({ tokens }) => tokens));
    }
    return this.#accepted;
  }

  async #take(pending: Batch[]): Promise<void> {
    const made = await pending.shift()!.tokens;
    const { stopTokens = [], onTokens } = this.#options;
    const stop = made.findIndex((token) => stopTokens.includes(token));
    const tokens = stop < 0 ? made : made.slice(0, stop + 1);
    const vocabulary = vocabularyOf(this.#layers[0]!);
    if (tokens.some((token) => token >= vocabulary)) {
      throw new EngineError("invalid_data", "The output head computed values that are not finite.");
    }
    this.#accepted += tokens.length;
    this.#isOver = !onTokens(tokens) || stop >= 0;
  }

  // Encodes `size` steps behind the first `done` ones; their tokens come back together.
  #submit(done: number, size: number): Batch {
    const { staging } = this.#machine;
    const target = staging.take(4 * size);
    for (let i = done; i < done + size; ++i) this.#step(i, i + 1 === done + size ? target : null);
    const tokens = staging
      .read(target, 4 * size)
      .then((bytes) => [...new Uint32Array(bytes)]);
    tokens.catch(() => undefined); // whoever takes the batch sees it
    return { tokens };
  }

  #step(index: number, target: GPUBuffer | null): void {
    const { arena, ropes, encoder } = this.#machine;
    const { session, firstPosition, firstToken, interval } = this.#options;
    const position = firstPosition + index;
    const chunks = (position >> 8) + 1;
    const row = { token: index === 0 ? firstToken : kChainedToken, position, session };
    // Two batches are on their way at most: each has its own half of the slots.
    const slot = index % (2 * interval);
    arena.write(
      { rows: [row], headRows: [0], pages: this.#pages, chunks, historySlot: slot },
      ropes,
    );
    encoder.submit(this.#works(chunks), target ? this.#copies(index, target) : []);
  }

  #copies(index: number, target: GPUBuffer): BufferCopy[] {
    const { aux, layout } = this.#machine;
    const { interval } = this.#options;
    const size = (index % interval) + 1;
    const first = (index - size + 1) % (2 * interval);
    const fromByte = 4 * (layout.aux.historyAt + first);
    return [{ from: aux, fromByte, to: target, toByte: 0, byteCount: 4 * size }];
  }

  #works(chunks: number): Work[] {
    const shape = { rows: 1, chunks };
    const works: Work[] = [];
    for (const { index } of this.#layers) {
      const { gather, layer } = this.#machine.dispatchesOf(index);
      for (const dispatches of [gather, layer]) works.push({ dispatches, shape });
    }
    for (const dispatches of this.#choice) works.push({ dispatches, shape });
    return works;
  }
}
