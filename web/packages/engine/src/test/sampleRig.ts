// The sampling kernels alone, behind an argmax over logits that a test gives: tests only.
import { Buffers, Usage } from "../gpu/buffers.ts";
import type { Gpu } from "../gpu/open.ts";
import { Pipelines } from "../gpu/pipelines.ts";
import { makeDispatches } from "../dispatch/dispatch.ts";
import type { Dispatch } from "../dispatch/dispatch.ts";
import { kNoNeeds, kUsualRows, layoutOf } from "../dispatch/layout.ts";
import type { Layout } from "../dispatch/layout.ts";
import { sampleDrafts, sampleDispatchesOf } from "../dispatch/sampling.ts";
import type { SampleDispatches } from "../dispatch/sampling.ts";
import { argmaxDrafts } from "../dispatch/selection.ts";
import { Arena } from "../run/arena.ts";
import { Encoder } from "../run/encoder.ts";
import { Poker } from "../run/poker.ts";
import { Ropes } from "../run/ropes.ts";
import { choiceOf, writeSampler } from "../run/sampler.ts";
import type { SamplerTarget } from "../run/sampler.ts";
import type { Sampling } from "../sampling/parameters.ts";
import { Staging } from "../run/staging.ts";

const kUsage = Usage.storage | Usage.copyFrom | Usage.copyTo;

export class SampleRig implements SamplerTarget {
  readonly buffers: Buffers;
  readonly layout: Layout;
  readonly act: GPUBuffer;
  readonly aux: GPUBuffer;
  readonly #vocabulary: number;
  readonly #arena: Arena;
  readonly #encoder: Encoder;
  readonly #staging: Staging;
  readonly #argmax: readonly Dispatch[];
  readonly #sample: SampleDispatches;

  private constructor(
    parts: { buffers: Buffers; layout: Layout; act: GPUBuffer; aux: GPUBuffer; arena: Arena },
    vocabulary: number,
    dispatches: readonly Dispatch[],
  ) {
    this.buffers = parts.buffers;
    this.layout = parts.layout;
    this.act = parts.act;
    this.aux = parts.aux;
    this.#arena = parts.arena;
    this.#vocabulary = vocabulary;
    this.#encoder = new Encoder(parts.buffers.gpu.device);
    this.#staging = new Staging(
      parts.buffers,
      new Poker(parts.buffers.gpu.device.queue, false),
    );
    const argmaxCount = argmaxDrafts(parts.layout, vocabulary).length;
    this.#argmax = dispatches.slice(0, argmaxCount);
    this.#sample = sampleDispatchesOf(dispatches.slice(argmaxCount));
  }

  static async make(gpu: Gpu, vocabulary: number): Promise<SampleRig> {
    const buffers = new Buffers(gpu, 0, () => 0);
    const pipelines = Pipelines.of(gpu.device);
    const layout = layoutOf({ ...kNoNeeds, vocabulary }, kUsualRows);
    const act = buffers.make("logits", "scratch", 4 * layout.actValues, kUsage);
    const aux = buffers.make("selections", "scratch", 4 * layout.aux.words, kUsage);
    const arena = new Arena(buffers);
    const unusedRead = buffers.make("unused", "scratch", 16, Usage.storage);
    const unusedWrite = buffers.make("unused", "scratch", 16, Usage.storage);
    const shared = { step: arena.buffer, act, aux, unusedRead, unusedWrite };
    const drafts = [...argmaxDrafts(layout, vocabulary), ...sampleDrafts(layout, vocabulary)];
    const { dispatches } = await makeDispatches(buffers, pipelines, shared, "sampling", drafts);
    return new SampleRig({ buffers, layout, act, aux, arena }, vocabulary, dispatches);
  }

  // The tokens for these positions, one after another, each from the same raw logits. What was
  // drawn counts as seen from then on.
  async draw(
    logits: Float32Array<ArrayBuffer>,
    sampling: Sampling,
    positions: readonly number[],
  ): Promise<number[]> {
    writeSampler(this, this.#vocabulary, 0, sampling);
    const { queue } = this.buffers.gpu.device;
    const choice = choiceOf([sampling], this.#argmax, this.#sample);
    const shape = { rows: 1, chunks: 1, runs: 1 };
    const { historyAt } = this.layout.aux;
    const target = this.#staging.take(4 * positions.length);
    for (const [slot, position] of positions.entries()) {
      queue.writeBuffer(this.act, 4 * this.layout.logits.base, logits);
      const rows = [{ token: 0, position: position - 1, session: 1 }];
      const pages = new Map<number, readonly number[]>();
      this.#arena.write({ rows, headRows: [0], pages, chunks: 1, historySlot: slot }, new Ropes());
      const isLast = slot + 1 === positions.length;
      const byteCount = 4 * positions.length;
      const copy = { from: this.aux, fromByte: 4 * historyAt, to: target, toByte: 0, byteCount };
      const works = choice.map((dispatches) => ({ dispatches, shape }));
      this.#encoder.submit(works, isLast ? [copy] : []);
    }
    return [...new Uint32Array(await this.#staging.read(target, 4 * positions.length))];
  }

  free(): void {
    this.buffers.freeAll();
  }
}
