// Membership's part for layers whose experts are elsewhere. A hub's step stops in them, and its
// rows go to the server, which asks the holders and answers with a row for each. In C++ a hub asks
// holders by itself: src/worker/hub.h.
//
//   rowsWait -> ROWS -> server -> GIVEN -> giveRows, or refuseRows where there is no answer
//
// One step waits at a time (underWay.ts), for one layer. A wait ends with its answer, or with the
// connection.
import {
  ExpertFrameType, WireError, cancelFrame, decodeShardMessage, encodeShardMessage, floatRowsOf,
  kAnyExpert, rowsFrame,
} from "@weft/wire";
import type { ExpertFrame, HubRows } from "@weft/wire";

import type { Event } from "./events.ts";
import type { Outbox } from "./outbox.ts";

const kServer = 0; // as a peer
const kMostSequence = 0x7fffffff; // the top bit is for those who send batches

const kLost = "The connection broke while the step waited for the rows of its experts.";

type RowsWait = Extract<Event, { kind: "rowsWait" }>;
type Waiting = Omit<HubRows, "rows">;

export class HubWaits {
  readonly #out: Outbox;
  #sequence = 0; // of the last rows that were sent
  #waiting: Waiting | null = null;
  #isCancelled = false; // the server was told that other work waits
  #wasRefused = false; // what the step asked for last

  constructor(out: Outbox) {
    this.#out = out;
  }

  // A step waits for these. `isWanted`: the connection that asked for the step is still there.
  ask({ layer, slots, tokens, hidden, rows }: RowsWait, isWanted: boolean): void {
    this.#wasRefused = false;
    if (!isWanted || !this.#out.isConnected) return this.#refuse(kLost);
    this.#sequence = (this.#sequence % kMostSequence) + 1;
    const waiting = { sequence: this.#sequence, layer, slots, tokens, hidden };
    this.#waiting = waiting;
    this.#isCancelled = false;
    this.#send(rowsFrame({ ...waiting, rows }));
  }

  // A shard message of the server itself; gives whether it was an answer. What cannot be read is
  // taken for one, and the step fails: the server would not say it again.
  take(message: Uint8Array): boolean {
    try {
      const { frames } = decodeShardMessage(message);
      const answers = frames.filter(({ type }) => type === ExpertFrameType.given);
      for (const frame of answers) this.#onAnswer(frame);
      return answers.length > 0;
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      if (this.#waiting) this.#refuse(`The server's answer cannot be read: ${error.message}`);
      return true;
    }
  }

  #onAnswer(frame: ExpertFrame): void {
    const { sequence, layer, expert, tokens, hidden, failed, body } = frame;
    const waiting = this.#waiting;
    if (waiting?.sequence !== sequence) return; // nobody waits for it
    const isOfLayer = layer === waiting.layer && expert === waiting.slots;
    if (isOfLayer && failed) return this.#refuse(new TextDecoder().decode(body));
    if (!isOfLayer || tokens !== waiting.tokens || hidden !== waiting.hidden) {
      return this.#refuse(
        `The server's answer has ${tokens} rows of ${hidden} columns for ${expert} slots of ` +
          `layer ${layer}; expected ${waiting.tokens} of ${waiting.hidden} for ` +
          `${waiting.slots} slots of layer ${waiting.layer}.`,
      );
    }
    this.#waiting = null;
    this.#out.do({ kind: "giveRows", rows: floatRowsOf(frame) });
  }

  // Other work waits behind the step: where nobody holds its experts, the server gives it up.
  giveWay(): void {
    if (!this.#waiting || this.#isCancelled) return;
    this.#isCancelled = true;
    this.#send(cancelFrame(this.#waiting.sequence, this.#waiting.layer, kAnyExpert));
  }

  // The connection broke.
  onConnectionLost(): void {
    if (this.#waiting) this.#refuse(kLost);
  }

  // Whether the step that has failed did so because its rows were refused: its engine works.
  takeRefusal(): boolean {
    const was = this.#wasRefused;
    this.#wasRefused = false;
    return was;
  }

  #refuse(message: string): void {
    this.#waiting = null;
    this.#wasRefused = true;
    this.#out.do({ kind: "refuseRows", message });
  }

  #send(frame: ExpertFrame): void {
    this.#out.sendFrame(encodeShardMessage(kServer, [frame]));
  }
}
