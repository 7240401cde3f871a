// The rules for sessions that go beyond the engine's: the limits of Init.
import type { Frame } from "@weft/wire";

import { kMeasureSession } from "./events.ts";

export class SessionLimits {
  readonly #isAlone: boolean;
  readonly #sessions = new Set<number>(); // that steps have named and that are not over
  #context = 0; // positions; 0: any
  #count = 0; // 0: any

  // `isAlone`: the engine computes one session at a time.
  constructor(isAlone: boolean) {
    this.#isAlone = isAlone;
  }

  begin(contextLength: number, sessionCount: number): void {
    this.#context = contextLength;
    this.#count = sessionCount;
  }

  has(session: number): boolean {
    return this.#sessions.has(session);
  }

  all(): number[] {
    return [...this.#sessions];
  }

  forget(session: number): void {
    this.#sessions.delete(session);
  }

  clear(): void {
    this.#sessions.clear();
  }

  // "" or why a step of these is refused.
  takeRuns(runs: Frame["runs"]): string {
    if (this.#isAlone && runs.length > 1) {
      return `The frame has ${runs.length} runs; this engine computes one session at a time.`;
    }
    for (const { session, firstPosition, count } of runs) {
      const problem = this.take(session, firstPosition + count);
      if (problem !== "") return problem;
    }
    return "";
  }

  // "", or why the session may not come to hold so many positions.
  take(session: number, positions: number): string {
    if (session === kMeasureSession) {
      return `Session ${session} is the one that measurements use.`;
    }
    if (this.#context > 0 && positions > this.#context) {
      return (
        `Session ${session} would hold ${positions} positions, expected at most ` +
        `${this.#context}.`
      );
    }
    const isNew = !this.#sessions.has(session);
    if (this.#count > 0 && isNew && this.#sessions.size >= this.#count) {
      return (
        `Session ${session} would be held beside ${this.#sessions.size} others, expected at ` +
        `most ${this.#count} in all.`
      );
    }
    this.#sessions.add(session);
    return "";
  }
}
