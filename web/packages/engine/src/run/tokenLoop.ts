// Whole-model decoding (weinfer-webgpu 4.3): when one device holds every layer, the token that the
// GPU chose goes into the next embedding without leaving it. Sampling stays on the GPU, too
// (kernels/sample/).
//
// Several sessions decode together. Each has a seat for as long as it goes on: a chain, which is
// the place of its latest token on the GPU, and a sampler. A step has one row of each session; the
// kernels promise a row the same bits whatever its neighbours are, so that a session's tokens are
// those that it would get alone. Batches are `interval` steps of the same sessions. Their tokens
// are fetched together, and with `pipelined` the next batch is submitted before a batch is fetched:
//
//   GPU     a b c | a b c | a c d | a c d ...     b's stop token is among those of the second
//   told          | a b c | a b c | a c d ...     batch, so its place in the third is lost; d joins
//
// A session that comes is told its first token as soon as there is one: the batches behind its
// coming have 1, 1, 2, 4, ... steps, up to the interval.
//
// A model with recurrent state knows what it was at the ends of batches alone (kv/stateChain.ts). A
// session whose last token lies within a batch computes the tokens of that batch up to it once
// more, as a prompt is computed.
//
// Sessions come and go between batches without anything being waited for: what the GPU was given is
// done in order. So a seat, or the pages of a session that has ended, may have another owner while
// the last batch of the old one still runs.
import { EngineError } from "../base/error.ts";
import { kMaxSeats } from "../base/seats.ts";
import { kHistory } from "../dispatch/layout.ts";
import type { LoadedLayer } from "../dispatch/loadedLayer.ts";
import type { Append } from "../kv/pages.ts";
import type { Slots, StateChain } from "../kv/stateChain.ts";
import type { StateSlots } from "../kv/states.ts";
import { endsInLogits } from "../program/ir.ts";
import { isPlain } from "../sampling/parameters.ts";
import type { Sampling } from "../sampling/parameters.ts";
import type { GenerateRequest, TokenSource } from "../stage/stageEngine.ts";
import { Arena, kChainedToken } from "./arena.ts";
import type { ArenaContents, ArenaRow } from "./arena.ts";
import { outputColumns, vocabularyOf } from "./check.ts";
import type { Work } from "./encoder.ts";
import type { Machine } from "./machine.ts";
import { chunksOf } from "./passes.ts";
import { choiceOf, kPlain, writeSampler } from "./sampler.ts";
import type { Choice } from "./sampler.ts";
import { stateRunsOf } from "./step.ts";

// Two batches are on their way at most: each has its own half of the tokens that are kept.
const kBatchTokens = kHistory / 2;
export const kMaxInterval = kBatchTokens / 2;
const kRowsAgain = 32; // at a time

// What the engine does about sessions: rules, pages, what they hold.
export interface Sessions {
  // Throws EngineError where the request cannot be: it changes nothing then.
  begin(request: GenerateRequest): Begun;
  // The slots of a step as the kernels want them: of all loaded layers with state.
  slotsOf(slots: readonly ReadonlyMap<number, Slots>[]): StateSlots[];
  // So many positions behind `done` of them count now.
  commit(request: GenerateRequest, done: number, count: number): void;
  // Behind `done` positions nothing counts, though more may have been written.
  end(request: GenerateRequest, append: Append, done: number, hasWritten: boolean): void;
}

// Where a session's rows go.
export interface Begun {
  readonly append: Append;
  readonly states: StateChain | null; // of models with recurrent state
  readonly interval: number; // what was asked for, or 1
  readonly isTight: boolean; // there is no memory for the states of a batch ahead
}

interface Seated extends Begun {
  readonly request: GenerateRequest;
  readonly told: number[]; // tokens
  index: number; // of the seat
  submitted: number; // steps
  isChained: boolean; // the GPU knows its latest token
  isOver: boolean;
}

function isPipelined({ request, isTight }: Seated): boolean {
  return request.pipelined && !isTight;
}

interface Batch {
  readonly seated: readonly Seated[];
  readonly steps: number;
  readonly tokens: Promise<Uint32Array>; // step after step, a row of each session
}

export class TokenLoop {
  readonly #machine: Machine;
  readonly #layers: readonly LoadedLayer[];
  readonly #sessions: Sessions;
  readonly #waiting: GenerateRequest[] = []; // without a seat
  #seated: Seated[] = [];
  #half = 0;
  #since = 0; // when the last batch was told, ms

  // REQUIRES: all layers of a model.
  constructor(machine: Machine, layers: readonly LoadedLayer[], sessions: Sessions) {
    this.#machine = machine;
    this.#layers = layers;
    this.#sessions = sessions;
  }

  // Until nobody is left, or the source pauses. Throws what concerns all: the device.
  async run(source: TokenSource): Promise<void> {
    const pending: Batch[] = [];
    this.#since = performance.now();
    try {
      for (let count = 0; ; ++count) {
        const goesOn = count === 0 || !source.pauses();
        if (goesOn) await this.#join(source, pending);
        const seated = goesOn ? this.#ready() : [];
        if (seated.length > 0) pending.push(await this.#submit(seated));
        const [oldest] = pending;
        if (!oldest) return;
        const mayWait = seated.length > 0 && seated.every(isPipelined);
        if (pending.length > (mayWait ? 1 : 0)) this.#take(oldest, await oldest.tokens, pending);
      }
    } finally {
      await Promise.allSettled(pending.map(({ tokens }) => tokens));
      this.#leave();
    }
  }

  // Those that have rows to compute.
  #ready(): Seated[] {
    return this.#seated.filter(({ request, submitted }) => submitted < request.count);
  }

  // What was told counts, the rest never was.
  #leave(): void {
    for (const seated of this.#seated) this.#end(seated);
  }

  #end(seated: Seated): void {
    const { request, append, states, told, submitted } = seated;
    seated.isOver = true;
    states?.end();
    this.#seated = this.#seated.filter((each) => each !== seated);
    this.#sessions.end(request, append, told.length, submitted > 0);
  }

  async #join(source: TokenSource, pending: Batch[]): Promise<void> {
    this.#waiting.push(...source.take());
    if (this.#waiting.length === 0) return;
    const wanted = this.#seated.length + this.#waiting.length;
    if (wanted > this.#machine.layout.seats) await this.#moreSeats(wanted, pending);
    while (this.#waiting.length > 0 && this.#seated.length < this.#machine.layout.seats) {
      this.#seat(this.#waiting.shift()!);
    }
  }

  // The GPU loses its chains and samplers when there come to be more of them.
  async #moreSeats(wanted: number, pending: Batch[]): Promise<void> {
    const before = this.#machine.layout.seats;
    if (before === kMaxSeats) return;
    for (let oldest = pending[0]; oldest; oldest = pending[0]) {
      this.#take(oldest, await oldest.tokens, pending);
    }
    if (this.#machine.expectSeats(wanted) === before) return;
    for (const seated of this.#seated) {
      seated.isChained = false;
      this.#writeSampler(seated);
    }
  }

  #seat(request: GenerateRequest): void {
    let begun: Begun;
    try {
      begun = this.#sessions.begin(request);
    } catch (error) {
      return request.onFailed?.(error);
    }
    const taken = new Set(this.#seated.map(({ index }) => index));
    let index = 0;
    while (taken.has(index)) ++index;
    const state = { submitted: 0, isChained: false, isOver: false };
    const seated: Seated = { request, ...begun, told: [], index, ...state };
    this.#seated.push(seated);
    this.#writeSampler(seated);
  }

  #writeSampler({ request, told, index }: Seated): void {
    const { sampling = kPlain } = request;
    const seen = new Map(sampling.seen);
    for (const token of told) seen.set(token, (seen.get(token) ?? 0) + 1);
    const vocabulary = outputColumns(this.#layers.at(-1)!);
    writeSampler(this.#machine, vocabulary, index, { ...sampling, seen });
  }

  #take(batch: Batch, tokens: Uint32Array, pending: Batch[]): void {
    pending.splice(pending.indexOf(batch), 1);
    const { length } = batch.seated;
    const stepMs = (performance.now() - this.#since) / batch.steps;
    this.#since = performance.now();
    for (const [row, seated] of batch.seated.entries()) {
      if (seated.isOver) continue; // behind its end
      this.#tell(seated, [...tokens.filter((_, at) => at % length === row)], stepMs);
    }
  }

  #tell(seated: Seated, made: readonly number[], stepMs: number): void {
    const { request, told } = seated;
    const { count, stopTokens = [], onTokens, onFailed } = request;
    const stop = made.findIndex((token) => stopTokens.includes(token));
    const tokens = stop < 0 ? made : made.slice(0, stop + 1);
    const vocabulary = vocabularyOf(this.#layers[0]!);
    if (tokens.some((token) => token >= vocabulary)) {
      this.#end(seated);
      const message = "The output head computed values that are not finite.";
      return onFailed?.(new EngineError("invalid_data", message));
    }
    this.#sessions.commit(request, told.length, tokens.length);
    told.push(...tokens);
    if (seated.states?.told(told.length) === false) this.#again(seated, seated.states);
    const isLast = stop >= 0 || told.length === count;
    if (isLast) this.#end(seated);
    const isWanted = onTokens(tokens, isLast, stepMs * tokens.length);
    if (!isWanted && !isLast) this.#end(seated);
  }

  // As many steps as everyone of them has left, one submission each; their tokens come together.
  async #submit(seated: readonly Seated[]): Promise<Batch> {
    const steps = Math.min(
      Math.floor(kBatchTokens / seated.length),
      ...seated.map(({ interval, submitted }) => Math.min(interval, Math.max(1, submitted))),
      ...seated.map(({ request, submitted }) => request.count - submitted),
    );
    const { staging, arena, ropes, encoder, aux, layout } = await this.#prepared(seated);
    const choice = await this.#choice(seated);
    const byteCount = 4 * steps * seated.length;
    const target = staging.take(byteCount);
    const first = this.#half * kBatchTokens;
    this.#half = 1 - this.#half;
    let works: Work[] = [];
    let chunks = 0;
    for (let step = 0; step < steps; ++step) {
      const contents = this.#contents(seated, first + step * seated.length, this.#next(seated));
      arena.write(contents, ropes);
      if (contents.chunks !== chunks) works = this.#works(contents, choice);
      ({ chunks } = contents);
      const fromByte = 4 * (layout.aux.historyAt + first);
      const copy = { from: aux, fromByte, to: target, toByte: 0, byteCount };
      encoder.submit(works, step + 1 === steps ? [copy] : []);
      for (const each of seated) {
        each.isChained = true;
        ++each.submitted;
      }
    }
    for (const { states, submitted } of seated) states?.hold(submitted);
    const tokens = staging.read(target, byteCount).then((bytes) => new Uint32Array(bytes));
    tokens.catch(() => undefined); // whoever takes the batch sees it
    return { seated, steps, tokens };
  }

  // With room for the step's parameters.
  async #prepared(seated: readonly Seated[]): Promise<Machine> {
    const machine = this.#machine;
    const { columns } = machine.ropes;
    const none = this.#sessions.slotsOf(seated.map(() => new Map<number, Slots>()));
    const words = [Arena.words(this.#contents(seated, 0, none), columns)];
    for (const each of none.length > 0 ? seated : []) {
      words.push(Arena.words(this.#rowsAgain(each, 0, kRowsAgain, none), columns));
    }
    if (machine.arena.reserve(Math.max(...words))) machine.invalidate();
    await machine.prepare();
    return machine;
  }

  // The slots of the next step.
  #next(seated: readonly Seated[]): StateSlots[] {
    return this.#sessions.slotsOf(seated.map(({ states }) => states?.next() ?? new Map()));
  }

  #contents(
    seated: readonly Seated[],
    historySlot: number,
    slots: readonly StateSlots[],
  ): ArenaContents {
    const pages = new Map<number, readonly number[]>();
    const rows: ArenaRow[] = [];
    let chunks = 1;
    for (const { request, append, told, index, submitted, isChained } of seated) {
      const { session, firstPosition, firstToken } = request;
      const position = firstPosition + submitted;
      const token = isChained ? kChainedToken : (told.at(-1) ?? firstToken);
      rows.push({ token, position, session, seat: index });
      pages.set(session, append.pages.get(session)!);
      chunks = Math.max(chunks, (position >> 8) + 1);
    }
    const headRows = rows.map((_, row) => row);
    const runs = rows.map((_, index) => ({ index, first: index, count: 1, begins: true }));
    const stateRuns = stateRunsOf({ runs }, slots);
    return { rows, headRows, pages, chunks, historySlot, stateRuns };
  }

  // The last token that counts came within a batch, and the recurrent state behind it is gone: its
  // rows are computed once more from where the last told batch ended, all at once.
  #again(seated: Seated, states: StateChain): void {
    const { arena, ropes, encoder } = this.#machine;
    const end = seated.told.length;
    for (let done = states.back(); done < end; done += kRowsAgain) {
      const count = Math.min(kRowsAgain, end - done);
      const contents = this.#rowsAgain(seated, done, count, this.#next([seated]));
      arena.write(contents, ropes);
      const shape = { rows: count, chunks: contents.chunks, runs: 1 };
      const body = this.#layers.filter(({ program }) => !endsInLogits(program));
      encoder.submit(
        body.map(({ index }) => ({ dispatches: this.#machine.dispatchesOf(index).layer, shape })),
        [],
      );
    }
    states.hold(end);
    states.told(end);
  }

  // Those of the tokens that were known behind `done` told ones.
  #rowsAgain(
    { request, append, told }: Seated,
    done: number,
    count: number,
    slots: readonly StateSlots[],
  ): ArenaContents {
    const { session, firstPosition, firstToken } = request;
    const rows = Array.from({ length: count }, (_, i): ArenaRow => {
      const token = told[done + i - 1] ?? firstToken;
      return { token, position: firstPosition + done + i, session };
    });
    const pages = new Map([[session, append.pages.get(session)!]]);
    const runs = [{ index: 0, first: 0, count, begins: true }];
    const stateRuns = stateRunsOf({ runs }, slots);
    return { rows, headRows: [], pages, chunks: chunksOf(rows), historySlot: null, stateRuns };
  }

  async #choice(seated: readonly Seated[]): Promise<Choice> {
    const head = this.#layers.at(-1)!;
    const { argmax } = this.#machine.dispatchesOf(head.index);
    const samplings = seated
      .map(({ request }) => request.sampling)
      .filter((sampling): sampling is Sampling => sampling !== undefined && !isPlain(sampling));
    if (samplings.length === 0) return [argmax];
    return choiceOf(samplings, argmax, await this.#machine.sampleDispatches(head));
  }

  #works({ rows, chunks }: ArenaContents, choice: Choice): Work[] {
    const shape = { rows: rows.length, chunks, runs: rows.length, isApart: true };
    const works: Work[] = [];
    for (const { index } of this.#layers) {
      const { gather, layer } = this.#machine.dispatchesOf(index);
      for (const dispatches of [gather, layer]) works.push({ dispatches, shape });
    }
    for (const dispatches of choice) works.push({ dispatches, shape });
    return works;
  }
}
