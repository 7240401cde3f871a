// Where the status goes: a card that redraws itself on a terminal, a line for each change
// elsewhere (a file, a service's log).
import type { WorkerStatus } from "@weft/worker/threads/messages.ts";

import { Rate } from "./rate.ts";
import { figures, headline } from "./words.ts";

const kProgressMs = 5000; // between two lines about one download

export interface Output {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

export class Display {
  readonly #output: Output;
  readonly #now: () => number;
  readonly #rate = new Rate();
  #drawnLines = 0; // of the card
  #said = "";
  #saidAt = -Infinity;

  constructor(output: Output, now: () => number) {
    this.#output = output;
    this.#now = now;
  }

  show(status: WorkerStatus): void {
    const { download } = status;
    const bytesPerS = this.#rate.add(download?.doneBytes ?? 0, this.#now());
    if (this.#output.isTTY === true) this.#draw(status, bytesPerS);
    else this.#log(status, bytesPerS);
  }

  // A sentence that stays.
  say(sentence: string): void {
    this.#wipe();
    this.#line(sentence);
  }

  // The card stays as it is; what follows comes below it.
  finish(): void {
    this.#drawnLines = 0;
  }

  #line(text: string): void {
    const time = new Date().toTimeString().slice(0, 8);
    this.#output.write(this.#output.isTTY === true ? `${text}\n` : `${time} ${text}\n`);
  }

  #wipe(): void {
    if (this.#drawnLines > 0) this.#output.write(`\u001b[${this.#drawnLines}A\u001b[J`);
    this.#drawnLines = 0;
  }

  #draw(status: WorkerStatus, bytesPerS: number): void {
    const width = Math.max(20, (this.#output.columns ?? 80) - 1);
    const lines = [
      headline(status),
      ...figures(status, bytesPerS).map(([name, value]) => `  ${name.padEnd(14)} ${value}`),
    ];
    this.#wipe();
    for (const line of lines) this.#output.write(`${line.slice(0, width)}\n`);
    this.#drawnLines = lines.length;
  }

  // Steps are not told one by one: only where the sentence changes, progress now and then.
  #log(status: WorkerStatus, bytesPerS: number): void {
    const { phase } = status;
    const isSteady = phase === "ready" || phase === "computing";
    const shown = figures(status, bytesPerS);
    const valueOf = (name: string): string => shown.find(([it]) => it === name)?.[1] ?? "";
    const head = isSteady ? `Ready: ${valueOf("Holds")} of ${valueOf("Model")}.` : headline(status);
    const isProgress = phase === "downloading" || phase === "loading";
    const isEarly = this.#now() - this.#saidAt < kProgressMs;
    if (head === this.#said) return;
    if (isProgress && isEarly && this.#said.slice(0, 8) === head.slice(0, 8)) return;
    this.#said = head;
    this.#saidAt = this.#now();
    const more = isSteady ? ` ${valueOf("Memory used")}, ${valueOf("Engine")}.`
      : bytesPerS > 0 ? ` ${valueOf("Download")}.` : "";
    this.#line(head + more);
  }
}
