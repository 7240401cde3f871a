// What the engine computes now. One piece of work is under way at a time, but for steps: those of
// different sessions, and, where the engine takes them, those that follow in one session. Of steps
// that wait for experts elsewhere there is one at a time. A GPU waits while a step is encoded and
// while its result is read, so that the next step is begun meanwhile:
//
//   one at a time    encode A | A on the GPU | read A | encode B | B on the GPU | read B
//   two              encode A | A on the GPU          | B on the GPU           | read B
//                               encode B                read A
import type { Work } from "./events.ts";
import type { StepWork } from "./turns.ts";

// What an engine takes before the first step's result is there.
export interface StepsAtOnce {
  readonly stepsInFlight: number; // of different sessions
  readonly stepsFollow: boolean; // or of one, each beginning where the one before it ends
}

interface Running {
  readonly work: Work;
  isUnanswered: boolean; // the connection that asked for it is gone
}

export class WorkUnderWay {
  readonly #steps: StepsAtOnce;
  readonly #running: Running[] = []; // in the order in which it ends

  constructor(steps: StepsAtOnce) {
    this.#steps = steps;
  }

  get isEmpty(): boolean {
    return this.#running.length === 0;
  }

  // The oldest, where these are steps.
  get oldest(): Work | null {
    return this.#running[0]?.work ?? null;
  }

  // Whether a hub's step is under way whose connection is still there.
  get isHubWanted(): boolean {
    return this.#running.some((each) => isOfHub(each) && !each.isUnanswered);
  }

  // Whether the connection that asked for the oldest is still there.
  get isOldestWanted(): boolean {
    return this.#running[0]?.isUnanswered === false;
  }

  // Whether the step may begin before what is under way has ended.
  mayBeginBehind(step: StepWork): boolean {
    if (this.#running.length >= this.#steps.stepsInFlight) return false;
    if (step.isHub && this.#running.some(isOfHub)) return false;
    return this.#running.every(
      ({ work }) => work.kind === "runStep" && this.#mayFollow(step, work),
    );
  }

  // A run of the same session must begin where the running one ends. A third step of a session
  // waits, since it does not follow the first one.
  #mayFollow(next: StepWork, running: StepWork): boolean {
    const isSame = next.layers.first === running.layers.first &&
      next.layers.end === running.layers.end;
    return next.frame.runs.every((run) => {
      const before = running.frame.runs.find(({ session }) => session === run.session);
      if (!before) return true;
      return this.#steps.stepsFollow && isSame && run.generation === before.generation &&
        run.firstPosition === before.firstPosition + before.count;
    });
  }

  begin(work: Work): void {
    this.#running.push({ work, isUnanswered: false });
  }

  // The oldest has ended.
  end(): Running | null {
    return this.#running.shift() ?? null;
  }

  onConnectionLost(): void {
    for (const each of this.#running) each.isUnanswered = true;
  }
}

function isOfHub({ work }: Running): boolean {
  return work.kind === "runStep" && work.isHub;
}
