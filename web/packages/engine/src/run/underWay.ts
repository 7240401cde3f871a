// Steps that are submitted and whose results are not there yet. What they append counts at once, so
// that the next step of a session can follow while the last one is computed. Where one fails, what
// was built on it is undone first, from the last step on:
//
//   A: session 1, rows 0 to 255    B: session 1, rows 256 to 511    C: session 2
//   A fails: B is undone, then A, and both have failed. C goes on.
//
// Taking back from the last step on is exact: each step finds what it has left.
export interface Submitted {
  readonly sessions: readonly number[];
  keep(): void;
  undo(): void;
}

interface UnderWay extends Submitted {
  failure: Failure | null;
}

interface Failure {
  readonly error: unknown;
}

export interface StepEnd {
  // The results are there. Throws what failed below the step, if anything did.
  keep(): void;
  // They are not. Returns why: of a step that was undone before, what failed below it.
  fail(error: unknown): unknown;
}

export class StepsUnderWay {
  #steps: UnderWay[] = []; // in the order in which they were submitted

  get isEmpty(): boolean {
    return this.#steps.length === 0;
  }

  begin(submitted: Submitted): StepEnd {
    const step: UnderWay = { ...submitted, failure: null };
    this.#steps.push(step);
    return {
      keep: () => {
        this.#end(step);
        if (step.failure) throw step.failure.error;
        step.keep();
      },
      fail: (error) => {
        if (!step.failure) this.#undo(step, { error });
        this.#end(step);
        return step.failure!.error;
      },
    };
  }

  #end(step: UnderWay): void {
    this.#steps = this.#steps.filter((each) => each !== step);
  }

  // The step and what was built on it, also by way of another step.
  #undo(step: UnderWay, failure: Failure): void {
    const sessions = new Set(step.sessions);
    const built = [step];
    for (const later of this.#steps.slice(this.#steps.indexOf(step) + 1)) {
      if (later.failure || !later.sessions.some((session) => sessions.has(session))) continue;
      built.push(later);
      for (const session of later.sessions) sessions.add(session);
    }
    for (const each of built.reverse()) {
      each.undo();
      each.failure = failure;
    }
  }
}
