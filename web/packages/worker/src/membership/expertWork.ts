// Membership's part for experts on other machines: what this worker is to hold for hubs and said
// that it holds, and which of their dispatches wait. In C++, which can be a hub as well:
// src/worker/expert_work.h.
import {
  ExpertFrameType,
  WireError,
  decodeShardMessage,
  encodeShardMessage,
  failedResult,
  heartbeatFrame,
  kAnyExpert,
  kBatchBit,
  kMaxRowBytes,
  readExpertSets,
} from "@weft/wire";
import type { ExpertFrame, HoldExperts, LayerExperts, ShardMessage } from "@weft/wire";

import type { Outcome, Work } from "./events.ts";
import type { Fetch } from "./fetchQueue.ts";
import type { Outbox } from "./outbox.ts";
import type { Turn } from "./turns.ts";

// Of one hub: two batches are on their way at a time, each of one message to a holder.
const kMostWaitingBytes = 2 * kMaxRowBytes;

// As the answer repeats them.
const rowBytes = ({ tokens, hidden }: ExpertFrame): number => 4 * tokens * hidden;

type Dispatches = Extract<Work, { kind: "runExperts" }>;

export class ExpertWork {
  readonly #out: Outbox;
  readonly #takesExperts: boolean;
  #binding = 0; // of the newest HoldExperts of this connection
  #wanted: readonly LayerExperts[] | null = null; // by it
  #held: readonly LayerExperts[] = []; // what may be asked for
  #usedBytes = 0;
  #computeUs = 0; // of the last dispatches
  readonly #hubs = new Set<number>(); // that have sent dispatches
  #waiting: Dispatches[] = []; // a message each, or what is left of it
  #isNext = false; // before other work

  constructor(out: Outbox, takesExperts: boolean) {
    this.#out = out;
    this.#takesExperts = takesExperts;
  }

  // Throws WireError for what a server must not send. What the statement does not name is not
  // computed any more; what it adds is, once it is loaded.
  hold({ binding, sets }: HoldExperts, layerCount: number): Fetch {
    this.#check("HoldExperts");
    if (binding <= this.#binding) {
      throw new WireError(`HoldExperts of binding ${binding} came after that of ${this.#binding}.`);
    }
    const wanted = readExpertSets(sets, layerCount);
    this.#binding = binding;
    this.#wanted = wanted;
    this.#held = this.#held.flatMap(({ layer, experts }) => {
      const kept = experts.filter((expert) => names(wanted, layer, expert));
      return kept.length > 0 ? [{ layer, experts: kept }] : [];
    });
    return { purpose: { kind: "experts", binding }, ranges: [], experts: wanted };
  }

  #check(what: string): void {
    if (this.#takesExperts) return;
    throw new WireError(`${what} came to a worker that takes no experts.`);
  }

  // Whether nothing newer was said.
  isWanted(binding: number): boolean {
    return this.#wanted !== null && binding === this.#binding;
  }

  get heldCount(): number {
    return this.#held.reduce((sum, { experts }) => sum + experts.length, 0);
  }

  // A layer's experts at a time, between other work.
  installing(binding: number): Turn {
    const take = (): Work | null =>
      this.isWanted(binding) ? { kind: "installExperts", binding, sets: this.#wanted! } : null;
    return { take, forgets: false };
  }

  // Of work that is done, where it was for experts: answers, and gives the turn for what is not
  // loaded yet.
  done(work: Work, outcome: Outcome): Turn[] {
    if (work.kind === "runExperts" && outcome.kind === "expertRows") {
      this.#computeUs = Math.round(outcome.computeMs * 1000);
      this.#send(work.hub, outcome.results);
    }
    const isInstalled = work.kind === "installExperts" && outcome.kind === "expertsInstalled";
    if (!isInstalled || !this.isWanted(work.binding)) return [];
    if (outcome.rest > 0) return [this.installing(work.binding)];
    this.#held = this.#wanted!;
    this.#usedBytes = outcome.usedBytes;
    const value = { binding: work.binding, usedBytes: BigInt(outcome.usedBytes) };
    this.#out.send({ case: "expertsHeld", value });
    return [];
  }

  // A shard message. Hubs are workers like this one, and the server forwards what they send without
  // reading it: what cannot be read is nobody's question, and no reason to leave the server.
  take(message: Uint8Array): void {
    this.#check("A shard message");
    let decoded: ShardMessage;
    try {
      decoded = decodeShardMessage(message);
    } catch (error) {
      if (error instanceof WireError) return;
      throw error;
    }
    const { peer: hub, frames } = decoded;
    const refusals: ExpertFrame[] = [];
    const dispatches: ExpertFrame[] = [];
    for (const frame of frames) {
      if (frame.type === ExpertFrameType.cancel) this.#cancel(hub, frame);
      if (frame.type !== ExpertFrameType.dispatch) continue;
      this.#preempt(hub, frame.sequence);
      const problem = this.#problemOf(hub, frame, dispatches);
      if (problem === "") dispatches.push(frame);
      else refusals.push(failedResult(frame, problem));
    }
    if (dispatches.length > 0) {
      this.#hubs.add(hub);
      this.#waiting.push({ kind: "runExperts", hub, dispatches });
    }
    if (refusals.length > 0) this.#send(hub, refusals);
  }

  // "", or why it is refused behind these of the same message.
  #problemOf(hub: number, frame: ExpertFrame, before: readonly ExpertFrame[]): string {
    const { layer, expert } = frame;
    if (!names(this.#held, layer, expert)) {
      return `Expert ${expert} of layer ${layer} is not held here.`;
    }
    const waiting = this.#waiting.filter((work) => work.hub === hub)
      .flatMap(({ dispatches }) => dispatches);
    const bytes = [...waiting, ...before, frame].reduce((sum, each) => sum + rowBytes(each), 0);
    if (bytes <= kMostWaitingBytes) return "";
    return (
      `Rows of ${bytes} bytes would wait here for this hub, expected at most ` +
      `${kMostWaitingBytes}.`
    );
  }

  // A dispatch takes the place of those that wait for the same hub's same batch under another
  // sequence.
  #preempt(hub: number, sequence: number): void {
    const batch = (sequence & kBatchBit) !== 0;
    this.#drop(
      hub,
      (other) => other.sequence !== sequence && ((other.sequence & kBatchBit) !== 0) === batch,
    );
  }

  #cancel(hub: number, { sequence, layer, expert }: ExpertFrame): void {
    this.#drop(
      hub,
      (other) =>
        other.sequence === sequence &&
        other.layer === layer &&
        (expert === other.expert || expert === kAnyExpert),
    );
  }

  #drop(hub: number, isUnwanted: (dispatch: ExpertFrame) => boolean): void {
    this.#waiting = this.#waiting
      .map((work) =>
        work.hub === hub
          ? { ...work, dispatches: work.dispatches.filter((each) => !isUnwanted(each)) }
          : work,
      )
      .filter(({ dispatches }) => dispatches.length > 0);
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  // The next message's dispatches, where it is their turn: they and all other work take turns.
  next(isOtherWaiting: boolean): Work | null {
    const isTurn = this.#isNext || !isOtherWaiting;
    const work = isTurn ? (this.#waiting.shift() ?? null) : null;
    this.#isNext = !work;
    return work;
  }

  // To every hub that has asked for something.
  sayHeartbeats(isComputing: boolean): void {
    const waiting = this.#waiting.reduce((sum, { dispatches }) => sum + dispatches.length, 0);
    const heartbeat = heartbeatFrame({
      waiting: waiting + (isComputing ? 1 : 0),
      computeUs: this.#computeUs,
      heldBytes: this.#usedBytes,
      maxMessageBytes: kMaxRowBytes,
    });
    for (const hub of this.#hubs) this.#send(hub, [heartbeat]);
  }

  #send(hub: number, frames: readonly ExpertFrame[]): void {
    this.#out.sendFrame(encodeShardMessage(hub, frames));
  }

  // Nothing is held or wanted any more.
  clear(): void {
    this.#wanted = null;
    this.#held = [];
    this.#usedBytes = 0;
    this.#hubs.clear();
    this.#waiting = [];
  }

  // The next connection begins with any number.
  lost(): void {
    this.clear();
    this.#binding = 0;
  }
}

function names(sets: readonly LayerExperts[], layer: number, expert: number): boolean {
  return sets.some((set) => set.layer === layer && set.experts.includes(expert));
}
