// Where the status goes: a card that redraws itself on a terminal, a line for each change
// elsewhere (a file, a service's log).
import type { WorkerStatus } from "@weft/worker/threads/messages.ts";

import { Rate } from "./rate.ts";
import { figures, headline, plainText } from "./words.ts";

const kProgressMs = 5000; // between two lines about one download

export interface Output {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

// What is known of one model's worker.
class Shown {
  readonly rate = new Rate();
  status: WorkerStatus | null = null;
  bytesPerS = 0;
  said = "";
  saidAt = -Infinity;
}

export class Display {
  readonly #output: Output;
  readonly #now: () => number;
  readonly #shown = new Map<string, Shown>(); // by model; "": of the only one
  #drawnLines = 0; // of the cards

  constructor(output: Output, now: () => number) {
    this.#output = output;
    this.#now = now;
  }

  // `model`: whose worker it is, where the server has several.
  show(status: WorkerStatus, model = ""): void {
    const shown = this.#shown.get(model) ?? new Shown();
    this.#shown.set(model, shown);
    shown.status = status;
    shown.bytesPerS = shown.rate.add(status.download?.doneBytes ?? 0, this.#now());
    if (this.#output.isTTY === true) this.#draw();
    else this.#log(status, shown, model);
  }

  // The model's worker has gone.
  forget(model: string): void {
    this.#shown.delete(model);
    if (this.#output.isTTY === true) this.#draw();
  }

  // A sentence that stays.
  say(sentence: string): void {
    this.#wipe();
    this.#line(sentence);
  }

  // The cards stay as they are; what follows comes below them.
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

  #draw(): void {
    const width = Math.max(20, (this.#output.columns ?? 80) - 1);
    const lines = [...this.#shown.values()].flatMap(({ status, bytesPerS }) => status ? [
      headline(status),
      ...figures(status, bytesPerS).map(([name, value]) => `  ${name.padEnd(14)} ${value}`),
    ] : []);
    this.#wipe();
    for (const line of lines) this.#output.write(`${line.slice(0, width)}\n`);
    this.#drawnLines = lines.length;
  }

  // Steps are not told one by one: only where the sentence changes, progress now and then.
  #log(status: WorkerStatus, last: Shown, model: string): void {
    const { phase } = status;
    const isSteady = phase === "ready" || phase === "computing";
    const shown = figures(status, last.bytesPerS);
    const valueOf = (name: string): string => shown.find(([it]) => it === name)?.[1] ?? "";
    const head = isSteady ? `Ready: ${valueOf("Holds")} of ${valueOf("Model")}.` : headline(status);
    const isProgress = phase === "downloading" || phase === "loading";
    const isEarly = this.#now() - last.saidAt < kProgressMs;
    if (head === last.said) return;
    if (isProgress && isEarly && last.said.slice(0, 8) === head.slice(0, 8)) return;
    last.said = head;
    last.saidAt = this.#now();
    const more = isSteady ? ` ${valueOf("Memory used")}, ${valueOf("Engine")}.`
      : last.bytesPerS > 0 ? ` ${valueOf("Download")}.` : "";
    this.#line((model === "" ? "" : `${plainText(model)}: `) + head + more);
  }
}
