// An answer that comes again from its beginning: what is written already is passed over, and what
// is new is told.
//
//   written "The wea", again "The weather"   tells "ther"
//   written "The wea", again "A weather"     tells that it is another answer, "A weather"
import type { AnswerPart } from "./chats.ts";

interface Written {
  text: string;
  thoughts: string;
}

export class Replay {
  readonly #tell: (part: AnswerPart) => void;
  readonly #text: Channel;
  readonly #thoughts: Channel;
  #isOther = false;

  constructor(written: Written, tell: (part: AnswerPart) => void) {
    this.#text = new Channel(written.text);
    this.#thoughts = new Channel(written.thoughts);
    this.#tell = tell;
  }

  add(text: string, thoughts: string): void {
    const [newThoughts, newText] = [this.#thoughts.add(thoughts), this.#text.add(text)];
    if (!this.#isOther && (newThoughts === null || newText === null)) return this.#tellOther();
    if (newThoughts) this.#tell({ kind: "thought", text: newThoughts });
    if (newText) this.#tell({ kind: "text", text: newText });
  }

  // The answer has ended: where it is shorter than what was written, it is another one.
  finish(): void {
    if (!this.#isOther && (this.#thoughts.isShort || this.#text.isShort)) this.#tellOther();
  }

  #tellOther(): void {
    this.#isOther = true;
    this.#tell({ kind: "again", text: this.#text.seen, thoughts: this.#thoughts.seen });
    this.#text.forget();
    this.#thoughts.forget();
  }
}

class Channel {
  #expected: string;
  #seen = "";

  constructor(expected: string) {
    this.#expected = expected;
  }

  get seen(): string {
    return this.#seen;
  }

  get isShort(): boolean {
    return this.#seen.length < this.#expected.length;
  }

  forget(): void {
    this.#expected = "";
  }

  // What of `piece` is new; null: it differs from what was expected.
  add(piece: string): string | null {
    const before = this.#seen.length;
    this.#seen += piece;
    const most = Math.min(this.#seen.length, this.#expected.length);
    if (before < most && this.#seen.slice(before, most) !== this.#expected.slice(before, most)) {
      return null;
    }
    return this.#seen.slice(Math.max(before, this.#expected.length));
  }
}
