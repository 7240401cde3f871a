// Hands pieces on together, a few times a second; timers also run in hidden tabs, frames do not.

// Pieces that come faster than this are drawn together.
const kDrawMs = 40;

export class PieceBuffer {
  readonly #emit: (text: string, thoughts: string) => void;
  #text = "";
  #thoughts = "";
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(emit: (text: string, thoughts: string) => void) {
    this.#emit = emit;
  }

  add(text: string, thoughts: string): void {
    this.#text += text;
    this.#thoughts += thoughts;
    this.#timer ??= setTimeout(() => this.flush(), kDrawMs);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const [text, thoughts] = [this.#text, this.#thoughts];
    this.#text = "";
    this.#thoughts = "";
    if (text !== "" || thoughts !== "") this.#emit(text, thoughts);
  }
}
